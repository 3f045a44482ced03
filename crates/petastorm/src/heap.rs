//! The values of a pickle, as plain data.
//!
//! Values refer to each other by number, because a pickle may use a value several times and may contain
//! cycles. This also means that no code that makes or drops values is recursive.

use forebay_base::Result;

use crate::budget::Budget;
use crate::name::Name;

/// A value of a pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapValue {
    None,
    Bool(bool),
    Int(i64),
    Name(Name),
    /// A value with content of its own, such as a text or a list. It is stored in the heap under this number.
    Node(u32),
}

/// A value of a pickle that has content of its own.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Tuple(Box<[HeapValue]>),
    List(Vec<HeapValue>),
    Dict(Vec<(HeapValue, HeapValue)>),
    Object(Box<Object>),
}

/// A record of an object that a pickle asks to be made. The function or class is never called.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) how: How,
    pub(crate) callee: Name,
    pub(crate) arguments: HeapValue,
    /// The value that would become the attributes of the object.
    pub(crate) state: HeapValue,
    /// The items that would be stored in the object, if it is like a dictionary.
    pub(crate) items: Vec<(HeapValue, HeapValue)>,
}

/// How a pickle asks for an object to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By a call of a function or a class, by the opcode `REDUCE`.
    Reduce,
    /// As a new object of a class, by the opcode `NEWOBJ`.
    New,
}

/// All values of a pickle that have content of their own. The index of a value is its number.
#[derive(Default)]
pub(crate) struct Heap(Vec<Node>);

impl Heap {
    /// Adds `node`. The caller has already taken the memory of its content from the budget.
    pub(crate) fn keep(&mut self, node: Node, budget: &mut Budget) -> Result<HeapValue> {
        budget.grow::<Node>(1)?;
        // The number always fits, because the budget allows far fewer values.
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(node);
        Ok(HeapValue::Node(number))
    }

    pub(crate) fn text(&mut self, text: &str, budget: &mut Budget) -> Result<HeapValue> {
        budget.block(text.len())?;
        self.keep(Node::Text(text.into()), budget)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8], budget: &mut Budget) -> Result<HeapValue> {
        budget.block(bytes.len())?;
        self.keep(Node::Bytes(bytes.into()), budget)
    }

    pub(crate) fn tuple(&mut self, values: &[HeapValue], budget: &mut Budget) -> Result<HeapValue> {
        budget.block(size_of_val(values))?;
        self.keep(Node::Tuple(values.into()), budget)
    }

    pub(crate) fn object(&mut self, object: Object, budget: &mut Budget) -> Result<HeapValue> {
        budget.block(size_of::<Object>())?;
        self.keep(Node::Object(Box::new(object)), budget)
    }

    /// The content that `value` refers to; `None` if the value has none.
    pub(crate) fn node(&self, value: HeapValue) -> Option<&Node> {
        match value {
            HeapValue::Node(number) => self.0.get(number as usize),
            _ => None,
        }
    }

    /// The content that `value` refers to, to be changed.
    pub(crate) fn node_mut(&mut self, value: HeapValue) -> Option<&mut Node> {
        match value {
            HeapValue::Node(number) => self.0.get_mut(number as usize),
            _ => None,
        }
    }

    /// The text, if `value` is a text.
    pub(crate) fn as_text(&self, value: HeapValue) -> Option<&str> {
        match self.node(value)? {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if `value` is a tuple.
    pub(crate) fn as_tuple(&self, value: HeapValue) -> Option<&[HeapValue]> {
        match self.node(value)? {
            Node::Tuple(values) => Some(values),
            _ => None,
        }
    }

    /// The elements, if `value` is a tuple or a list.
    pub(crate) fn as_sequence(&self, value: HeapValue) -> Option<&[HeapValue]> {
        match self.node(value)? {
            Node::Tuple(values) => Some(values),
            Node::List(values) => Some(values),
            _ => None,
        }
    }

    /// The object, if `value` is one.
    pub(crate) fn as_object(&self, value: HeapValue) -> Option<&Object> {
        match self.node(value)? {
            Node::Object(object) => Some(object),
            _ => None,
        }
    }
}
