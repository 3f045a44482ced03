//! The values of a pickle, as plain data.
//!
//! Values refer to each other by number, because a pickle may share values and form cycles. So neither making
//! values nor dropping them is recursive.

use forebay_base::Result;

use crate::budget::Budget;
use crate::name::Name;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapValue {
    None,
    Bool(bool),
    Int(i64),
    Name(Name),
    /// A value that needs memory, by its number in the heap.
    Node(u32),
}

/// A value that needs memory.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Tuple(Box<[HeapValue]>),
    List(Vec<HeapValue>),
    Dict(Vec<(HeapValue, HeapValue)>),
    Object(Box<Object>),
}

/// An object that a pickle wants to be made: a record of the call, which is never made.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) how: How,
    pub(crate) callee: Name,
    pub(crate) arguments: HeapValue,
    /// The value that would become the attributes of the object.
    pub(crate) state: HeapValue,
    /// The items that would be stored in the object, as in a dictionary.
    pub(crate) items: Vec<(HeapValue, HeapValue)>,
}

/// The way in which an opcode makes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By a call of a function or a class.
    Reduce,
    /// As a new object of a class.
    New,
}

/// All values of a pickle that need memory.
#[derive(Default)]
pub(crate) struct Heap(Vec<Node>);

impl Heap {
    /// Adds `node`, whose own memory was already taken from the budget.
    pub(crate) fn keep(&mut self, node: Node, budget: &mut Budget) -> Result<HeapValue> {
        budget.grow::<Node>(1)?;
        // The budget is used up long before the numbers are.
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(node);
        Ok(HeapValue::Node(number))
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, text: &str, budget: &mut Budget) -> Result<HeapValue> {
        budget.block(text.len())?;
        self.keep(Node::Text(text.into()), budget)
    }

    /// Adds bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8], budget: &mut Budget) -> Result<HeapValue> {
        budget.block(bytes.len())?;
        self.keep(Node::Bytes(bytes.into()), budget)
    }

    /// Adds a tuple of `values`.
    pub(crate) fn tuple(&mut self, values: &[HeapValue], budget: &mut Budget) -> Result<HeapValue> {
        budget.block(size_of_val(values))?;
        self.keep(Node::Tuple(values.into()), budget)
    }

    /// Adds an object.
    pub(crate) fn object(&mut self, object: Object, budget: &mut Budget) -> Result<HeapValue> {
        budget.block(size_of::<Object>())?;
        self.keep(Node::Object(Box::new(object)), budget)
    }

    /// The node that `value` refers to.
    pub(crate) fn node(&self, value: HeapValue) -> Option<&Node> {
        match value {
            HeapValue::Node(number) => self.0.get(number as usize),
            _ => None,
        }
    }

    /// The node that `value` refers to, for adding to it.
    pub(crate) fn node_mut(&mut self, value: HeapValue) -> Option<&mut Node> {
        match value {
            HeapValue::Node(number) => self.0.get_mut(number as usize),
            _ => None,
        }
    }

    /// The text in `value`, if it is a text.
    pub(crate) fn as_text(&self, value: HeapValue) -> Option<&str> {
        match self.node(value)? {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a tuple, if `value` is one.
    pub(crate) fn as_tuple(&self, value: HeapValue) -> Option<&[HeapValue]> {
        match self.node(value)? {
            Node::Tuple(values) => Some(values),
            _ => None,
        }
    }

    /// The values of a tuple or list, if `value` is one.
    pub(crate) fn as_sequence(&self, value: HeapValue) -> Option<&[HeapValue]> {
        match self.node(value)? {
            Node::Tuple(values) => Some(values),
            Node::List(values) => Some(values),
            _ => None,
        }
    }

    /// The object in `value`, if it is one.
    pub(crate) fn as_object(&self, value: HeapValue) -> Option<&Object> {
        match self.node(value)? {
            Node::Object(object) => Some(object),
            _ => None,
        }
    }
}
