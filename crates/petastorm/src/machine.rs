//! Interprets the instructions of a pickle with a stack of values and a numbered memory, as Python does.
//!
//! Unlike Python, it runs no foreign code: an instruction that imports gives only a [`Name`], and a call is
//! recorded as an [`Object`] instead of being made.

use std::collections::HashMap;

use forebay_base::Result;

use crate::budget::Budget;
use crate::fail::damaged;
use crate::heap::{Heap, HeapValue, How, Node, Object};
use crate::input::Input;
use crate::literal;
use crate::name::Name;

/// The most bytes that one entry of [`Machine::memory`] takes, while the hash table is copied to a larger
/// one.
const MEMORY_ENTRY_BYTES: usize = 96;

/// The versions of the pickle format that can be read.
const PROTOCOLS: std::ops::RangeInclusive<u8> = 0..=5;

/// Runs the instructions of `pickle`. Returns the resulting value, and the heap with the nodes it refers to.
pub(crate) fn perform(pickle: &[u8], budget: &mut Budget) -> Result<(HeapValue, Heap)> {
    let mut machine = Machine {
        input: Input::new(pickle),
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        highest: 0,
        memory: HashMap::new(),
        heap: Heap::default(),
        budget,
    };
    while machine.step()? {}
    match (machine.stack.as_slice(), machine.input.left()) {
        ([value], 0) => Ok((*value, machine.heap)),
        ([_], left) => Err(machine.damaged(format!("{left} bytes follow its end"))),
        (values, _) => Err(machine.damaged(format!("it ends with {} values instead of one", values.len()))),
    }
}

struct Machine<'a, 'b> {
    input: Input<'a>,
    /// The byte offset of the instruction that is being run, for error messages.
    at: usize,
    stack: Vec<HeapValue>,
    /// The marks that are still open, each as the height that the stack had when the mark was set.
    marks: Vec<usize>,
    /// The largest number of values and marks on the stack so far.
    highest: usize,
    memory: HashMap<u64, HeapValue>,
    heap: Heap,
    budget: &'b mut Budget,
}

impl Machine<'_, '_> {
    /// Runs one instruction. Returns `false` if it was the last one, `STOP`.
    fn step(&mut self) -> Result<bool> {
        self.at = self.input.at();
        self.budget.steps(1)?;
        let opcode = self.input.byte()?;
        match opcode {
            b'.' => return Ok(false),
            // Headers: the version of the format, and the length of the bytes that follow.
            0x80 => self.protocol()?,
            0x95 => self.frame()?,
            // Instructions for the stack.
            b'(' => self.mark()?,
            b'0' => self.drop_top()?,
            b'1' => self.drop_to_mark()?,
            b'2' => self.push(self.top()?)?,
            // Instructions that push a constant or a number.
            b'N' => self.push(HeapValue::None)?,
            0x88 => self.push(HeapValue::Bool(true))?,
            0x89 => self.push(HeapValue::Bool(false))?,
            b'I' | b'L' => self.written_number()?,
            b'K' => self.unsigned::<1>()?,
            b'M' => self.unsigned::<2>()?,
            b'J' => self.number(4)?,
            0x8a => self.number_of::<1>()?,
            0x8b => self.number_of::<4>()?,
            // Instructions that push a text or bytes.
            b'S' => self.quoted()?,
            b'V' => self.escaped()?,
            b'U' => self.old_string::<1>()?,
            b'T' => self.old_string::<4>()?,
            0x8c => self.text::<1>()?,
            b'X' => self.text::<4>()?,
            0x8d => self.text::<8>()?,
            b'C' => self.bytes::<1>()?,
            b'B' => self.bytes::<4>()?,
            0x8e => self.bytes::<8>()?,
            // Instructions for tuples, lists and dictionaries.
            b')' => self.tuple(self.stack.len())?,
            b't' => self.tuple_to_mark()?,
            0x85..=0x87 => self.tuple_of(usize::from(opcode - 0x84))?,
            b']' => self.keep(Node::List(Vec::new()))?,
            b'}' => self.keep(Node::Dict(Vec::new()))?,
            b'l' => self.list_to_mark()?,
            b'd' => self.dict_to_mark()?,
            b'a' => self.append(1)?,
            b'e' => self.append_to_mark()?,
            b's' => self.set_items(2)?,
            b'u' => self.set_items_to_mark()?,
            // Instructions that store the top value in the numbered memory, or push a stored value.
            b'p' => self.put_written()?,
            b'q' => self.put::<1>()?,
            b'r' => self.put::<4>()?,
            0x94 => self.remember(self.memory.len() as u64)?,
            b'g' => self.get_written()?,
            b'h' => self.get::<1>()?,
            b'j' => self.get::<4>()?,
            // Instructions that import a name or call it; here, calls are only recorded.
            b'c' => self.name_written()?,
            0x93 => self.name_on_stack()?,
            b'R' => self.object(How::Reduce)?,
            0x81 => self.object(How::New)?,
            b'b' => self.state()?,
            b'i' => return Err(self.old_instance()),
            _ => {
                let what = format!("it has the instruction {opcode:#04x}, which no Petastorm schema does");
                return Err(self.damaged(what));
            }
        }
        Ok(true)
    }

    fn protocol(&mut self) -> Result<()> {
        match self.input.byte()? {
            protocol if PROTOCOLS.contains(&protocol) => Ok(()),
            protocol => {
                Err(self.damaged(format!("it is a pickle of protocol {protocol}; up to 5 are known")))
            }
        }
    }

    fn frame(&mut self) -> Result<()> {
        let length = self.input.number::<8>()?;
        match length <= self.input.left() as u64 {
            true => Ok(()),
            false => {
                let left = self.input.left();
                Err(self.damaged(format!("{length} bytes are announced, and {left} follow")))
            }
        }
    }

    fn mark(&mut self) -> Result<()> {
        self.marks.push(self.stack.len());
        self.grown()
    }

    fn push(&mut self, value: HeapValue) -> Result<()> {
        self.stack.push(value);
        self.grown()
    }

    /// Counts one more value or mark against the memory budget, if the stack is higher than ever before.
    fn grown(&mut self) -> Result<()> {
        if self.stack.len() + self.marks.len() > self.highest {
            self.highest += 1;
            self.budget.grow::<HeapValue>(1)?;
        }
        Ok(())
    }

    fn top(&self) -> Result<HeapValue> {
        self.stack.last().copied().ok_or_else(|| self.damaged("its stack is empty"))
    }

    fn pop(&mut self) -> Result<HeapValue> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Drops the last mark if no value was pushed after it, and otherwise the top value.
    fn drop_top(&mut self) -> Result<()> {
        match self.marks.last() {
            Some(mark) if *mark >= self.stack.len() => {
                self.marks.pop();
                Ok(())
            }
            _ => self.pop().map(|_| ()),
        }
    }

    /// The stack index of the lowest of the top `count` values.
    fn place_of(&self, count: usize) -> Result<usize> {
        self.stack.len().checked_sub(count).ok_or_else(|| self.damaged("its stack has too few values"))
    }

    /// Removes the last mark, and returns the stack index of the first value above it.
    fn place_of_mark(&mut self) -> Result<usize> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(mark),
            _ => Err(self.damaged("it lacks a mark")),
        }
    }

    fn drop_to_mark(&mut self) -> Result<()> {
        let from = self.place_of_mark()?;
        self.stack.truncate(from);
        Ok(())
    }

    fn written_number(&mut self) -> Result<()> {
        let value = match self.input.line()? {
            b"00" => HeapValue::Bool(false),
            b"01" => HeapValue::Bool(true),
            line => HeapValue::Int(literal::number(line).ok_or_else(|| self.no_number())?),
        };
        self.push(value)
    }

    fn unsigned<const N: usize>(&mut self) -> Result<()> {
        let number = self.input.number::<N>()?;
        self.push(HeapValue::Int(number as i64))
    }

    fn number_of<const N: usize>(&mut self) -> Result<()> {
        let length = self.input.number::<N>()?;
        self.number(length)
    }

    /// Reads a signed integer of `length` bytes, and pushes it.
    fn number(&mut self, length: u64) -> Result<()> {
        let bytes = self.input.take(length)?;
        let sign = match bytes.last() {
            Some(highest) if highest & 0x80 != 0 => 0xff,
            _ => 0,
        };
        let mut whole = [sign; size_of::<i64>()];
        whole.get_mut(..bytes.len()).ok_or_else(|| self.no_number())?.copy_from_slice(bytes);
        self.push(HeapValue::Int(i64::from_le_bytes(whole)))
    }

    fn no_number(&self) -> forebay_base::Error {
        self.damaged("what should be a number of at most 64 bits is none")
    }

    fn quoted(&mut self) -> Result<()> {
        let line = self.input.line()?;
        self.budget.block(line.len())?;
        let bytes = literal::unquoted(line).ok_or_else(|| self.damaged("a text is not in quotes"))?;
        self.string(&bytes)
    }

    fn escaped(&mut self) -> Result<()> {
        let line = self.input.line()?;
        // The text exists as UTF-16 (two bytes for a byte of the line) and UTF-8 (up to three) at once.
        self.budget.block(line.len().saturating_mul(5))?;
        let text =
            literal::unescaped(line).ok_or_else(|| self.damaged("a text has an escape that is none"))?;
        let text = self.heap.text(&text, self.budget)?;
        self.push(text)
    }

    fn old_string<const N: usize>(&mut self) -> Result<()> {
        let length = self.input.number::<N>()?;
        let bytes = self.input.take(length)?;
        self.string(bytes)
    }

    /// Pushes a string of Python 2: as text if it is valid UTF-8, and otherwise as bytes.
    fn string(&mut self, bytes: &[u8]) -> Result<()> {
        let value = match str::from_utf8(bytes) {
            Ok(text) => self.heap.text(text, self.budget)?,
            Err(_) => self.heap.bytes(bytes, self.budget)?,
        };
        self.push(value)
    }

    fn text<const N: usize>(&mut self) -> Result<()> {
        let length = self.input.number::<N>()?;
        let text =
            str::from_utf8(self.input.take(length)?).map_err(|_| self.damaged("a text is not UTF-8"))?;
        let text = self.heap.text(text, self.budget)?;
        self.push(text)
    }

    fn bytes<const N: usize>(&mut self) -> Result<()> {
        let length = self.input.number::<N>()?;
        let bytes = self.input.take(length)?;
        let bytes = self.heap.bytes(bytes, self.budget)?;
        self.push(bytes)
    }

    fn keep(&mut self, node: Node) -> Result<()> {
        let value = self.heap.keep(node, self.budget)?;
        self.push(value)
    }

    fn tuple_to_mark(&mut self) -> Result<()> {
        let from = self.place_of_mark()?;
        self.tuple(from)
    }

    fn tuple_of(&mut self, count: usize) -> Result<()> {
        let from = self.place_of(count)?;
        self.tuple(from)
    }

    /// Replaces the values at the stack indices `from` and above by one tuple of them.
    fn tuple(&mut self, from: usize) -> Result<()> {
        let tuple = self.heap.tuple(&self.stack[from..], self.budget)?;
        self.stack.truncate(from);
        self.push(tuple)
    }

    fn list_to_mark(&mut self) -> Result<()> {
        let from = self.place_of_mark()?;
        self.budget.block(size_of_val(&self.stack[from..]))?;
        let list = self.stack.split_off(from);
        self.keep(Node::List(list))
    }

    fn dict_to_mark(&mut self) -> Result<()> {
        let from = self.place_of_mark()?;
        self.keep(Node::Dict(Vec::new()))?;
        let (dict, count) = (self.pop()?, self.stack.len() - from);
        self.stack.insert(from, dict);
        self.set_items(count)
    }

    fn append_to_mark(&mut self) -> Result<()> {
        let from = self.place_of_mark()?;
        self.append(self.stack.len() - from)
    }

    /// Moves the top `count` values to the end of the list below them on the stack.
    fn append(&mut self, count: usize) -> Result<()> {
        let from = self.place_of(count)?;
        self.budget.grow::<HeapValue>(count)?;
        let (below, added) = self.stack.split_at(from);
        match below.last().and_then(|list| self.heap.node_mut(*list)) {
            Some(Node::List(values)) => values.extend_from_slice(added),
            _ => return Err(self.damaged("it appends to what is not a list")),
        }
        self.stack.truncate(from);
        Ok(())
    }

    fn set_items_to_mark(&mut self) -> Result<()> {
        let from = self.place_of_mark()?;
        self.set_items(self.stack.len() - from)
    }

    /// Moves the top `count` values, which alternate between keys and their values, into the dictionary or
    /// object below them on the stack.
    fn set_items(&mut self, count: usize) -> Result<()> {
        let from = self.place_of(count)?;
        if !count.is_multiple_of(2) {
            return Err(self.damaged("a key lacks its value"));
        }
        self.budget.grow::<(HeapValue, HeapValue)>(count / 2)?;
        let (below, added) = self.stack.split_at(from);
        let items = match below.last().and_then(|target| self.heap.node_mut(*target)) {
            Some(Node::Dict(items)) => items,
            Some(Node::Object(object)) => &mut object.items,
            _ => return Err(self.damaged("it stores items in what is not a dictionary")),
        };
        items.extend(added.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        self.stack.truncate(from);
        Ok(())
    }

    fn put_written(&mut self) -> Result<()> {
        let place = self.place_written()?;
        self.remember(place)
    }

    fn put<const N: usize>(&mut self) -> Result<()> {
        let place = self.input.number::<N>()?;
        self.remember(place)
    }

    fn remember(&mut self, place: u64) -> Result<()> {
        self.budget.bytes(MEMORY_ENTRY_BYTES)?;
        self.memory.insert(place, self.top()?);
        Ok(())
    }

    fn get_written(&mut self) -> Result<()> {
        let place = self.place_written()?;
        self.recall(place)
    }

    fn get<const N: usize>(&mut self) -> Result<()> {
        let place = self.input.number::<N>()?;
        self.recall(place)
    }

    fn recall(&mut self, place: u64) -> Result<()> {
        let value = self.memory.get(&place).copied();
        let value = value.ok_or_else(|| self.damaged(format!("nothing was put at {place}")))?;
        self.push(value)
    }

    fn place_written(&mut self) -> Result<u64> {
        let line = self.input.line()?;
        let place = literal::number(line).and_then(|place| u64::try_from(place).ok());
        place.ok_or_else(|| self.damaged("a place in its memory is not a number"))
    }

    fn name_written(&mut self) -> Result<()> {
        let (module, name) = (self.input.line()?, self.input.line()?);
        let name = Name::new(&String::from_utf8_lossy(module), &String::from_utf8_lossy(name), self.at)?;
        self.push(HeapValue::Name(name))
    }

    /// The error for an instance of an old-style class of Python 2. If the class is not one that schemas use,
    /// the error names it.
    fn old_instance(&mut self) -> forebay_base::Error {
        match self.name_written() {
            Ok(()) => self.damaged("it makes an instance of an old class"),
            Err(error) => error,
        }
    }

    fn name_on_stack(&mut self) -> Result<()> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Some(module), Some(name)) = (self.heap.as_text(module), self.heap.as_text(name)) else {
            return Err(self.damaged("a name is not text"));
        };
        let name = Name::new(module, name, self.at)?;
        self.push(HeapValue::Name(name))
    }

    /// Replaces the top two values, a name and the arguments of a call to it, by a record of the call.
    fn object(&mut self, how: How) -> Result<()> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let HeapValue::Name(callee) = callee else {
            return Err(self.damaged("it calls what is not a name"));
        };
        if self.heap.as_tuple(arguments).is_none() {
            return Err(self.damaged("the arguments of a call are not a tuple"));
        }
        let object = Object { how, callee, arguments, state: HeapValue::None, items: Vec::new() };
        let object = self.heap.object(object, self.budget)?;
        self.push(object)
    }

    /// Removes the top value, and records it as the state of the object below it on the stack.
    fn state(&mut self) -> Result<()> {
        let (state, target) = (self.pop()?, self.top()?);
        match self.heap.node_mut(target) {
            Some(Node::Object(object)) => object.state = state,
            _ => return Err(self.damaged("it gives a state to what is not an object")),
        }
        Ok(())
    }

    fn damaged(&self, what: impl AsRef<str>) -> forebay_base::Error {
        damaged(self.at, what)
    }
}
