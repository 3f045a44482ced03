//! The schema that an Avro file was written with.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::values::{AvroValue, Input, Wanted};

/// The deepest nesting of values that is read.
const DEEPEST: usize = 32;

/// A schema as a list of nodes that refer to each other by index. The root node is the type of the file's
/// records.
#[derive(Debug)]
pub(super) struct Schema {
    nodes: Vec<SchemaNode>,
    root: usize,
}

#[derive(Clone, Debug)]
enum SchemaNode {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum,
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    /// The fields of a record, each with its field id and the index of its node.
    Record(Vec<(i32, usize)>),
}

/// The id of a field to which the schema gives none.
const NONE: i32 = i32::MIN;

impl Schema {
    /// Parses the JSON of a schema; `None` if it makes no sense.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let json: Json = serde_json::from_str(text).ok()?;
        let mut parser = Parser::default();
        let root = parser.node(&json)?;
        let nodes = parser.nodes;
        matches!(nodes.get(root)?, SchemaNode::Record(_)).then_some(Schema { nodes, root })
    }

    /// Reads the next record of the input, with the fields that are wanted.
    pub(super) fn value(&self, input: &mut Input<'_>, wanted: Wanted) -> Option<AvroValue> {
        self.read(self.root, input, wanted, DEEPEST)
    }

    fn read(&self, node: usize, input: &mut Input<'_>, wanted: Wanted, depth: usize) -> Option<AvroValue> {
        let depth = depth.checked_sub(1)?;
        input.step()?;
        Some(match self.nodes.get(node)? {
            SchemaNode::Null => AvroValue::Null,
            SchemaNode::Boolean => AvroValue::Boolean(input.boolean()?),
            SchemaNode::Int => AvroValue::Int(input.int()?),
            SchemaNode::Long => AvroValue::Long(input.long()?),
            SchemaNode::Float => AvroValue::Float(u32::from_le_bytes(input.take(4)?.try_into().ok()?)),
            SchemaNode::Double => AvroValue::Double(u64::from_le_bytes(input.take(8)?.try_into().ok()?)),
            SchemaNode::Bytes => AvroValue::Bytes(input.bytes()?.into()),
            SchemaNode::Text => AvroValue::Text(std::str::from_utf8(input.bytes()?).ok()?.into()),
            SchemaNode::Fixed(size) => AvroValue::Bytes(input.take(*size)?.into()),
            SchemaNode::Enum => AvroValue::Int(input.int()?),
            SchemaNode::Union(branches) => {
                let branch = usize::try_from(input.long()?).ok()?;
                self.read(*branches.get(branch)?, input, wanted, depth)?
            }
            SchemaNode::Array(item) => {
                let mut items = Vec::new();
                self.items(input, |input| {
                    let before = input.left();
                    items.push(self.read(*item, input, wanted, depth)?);
                    (input.left() < before).then_some(())
                })?;
                AvroValue::Array(items)
            }
            SchemaNode::Map(value) => {
                // Maps are skipped, because no field that Iceberg's reader needs is inside a map.
                self.items(input, |input| {
                    input.bytes()?;
                    self.skip(*value, input, depth)
                })?;
                AvroValue::Null
            }
            SchemaNode::Record(fields) => {
                let mut members = Vec::new();
                for (id, node) in fields {
                    match wanted.inside(*id) {
                        Some(inside) => members.push((*id, self.read(*node, input, inside, depth)?)),
                        None => self.skip(*node, input, depth)?,
                    }
                }
                AvroValue::Record(members)
            }
        })
    }

    fn skip(&self, node: usize, input: &mut Input<'_>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        input.step()?;
        match self.nodes.get(node)? {
            SchemaNode::Null => Some(()),
            SchemaNode::Boolean => input.boolean().map(drop),
            SchemaNode::Int | SchemaNode::Long | SchemaNode::Enum => input.long().map(drop),
            SchemaNode::Float => input.take(4).map(drop),
            SchemaNode::Double => input.take(8).map(drop),
            SchemaNode::Bytes | SchemaNode::Text => input.bytes().map(drop),
            SchemaNode::Fixed(size) => input.take(*size).map(drop),
            SchemaNode::Union(branches) => {
                let branch = usize::try_from(input.long()?).ok()?;
                self.skip(*branches.get(branch)?, input, depth)
            }
            SchemaNode::Array(item) => self.items(input, |input| {
                let before = input.left();
                self.skip(*item, input, depth)?;
                (input.left() < before).then_some(())
            }),
            SchemaNode::Map(value) => self.items(input, |input| {
                input.bytes()?;
                self.skip(*value, input, depth)
            }),
            SchemaNode::Record(fields) => {
                fields.iter().try_for_each(|(_, node)| self.skip(*node, input, depth))
            }
        }
    }

    /// Calls `take` once for each item of an array or a map, at the item's position in the input.
    fn items<'a>(
        &self,
        input: &mut Input<'a>,
        mut take: impl FnMut(&mut Input<'a>) -> Option<()>,
    ) -> Option<()> {
        loop {
            let count = input.block()?;
            if count == 0 {
                return Some(());
            }
            for _ in 0..count {
                take(input)?;
            }
        }
    }
}

#[derive(Default)]
struct Parser {
    nodes: Vec<SchemaNode>,
    named: HashMap<String, usize>,
}

impl Parser {
    fn node(&mut self, json: &Json) -> Option<usize> {
        match json {
            Json::String(name) => match primitive(name) {
                Some(node) => Some(self.push(node)),
                None => self.named.get(name.rsplit('.').next()?).copied(),
            },
            Json::Array(branches) => {
                let branches = branches.iter().map(|branch| self.node(branch)).collect::<Option<_>>()?;
                Some(self.push(SchemaNode::Union(branches)))
            }
            Json::Object(object) => match object.get("type")? {
                Json::String(kind) => self.of_kind(kind, json),
                inner => self.node(inner),
            },
            _ => None,
        }
    }

    fn of_kind(&mut self, kind: &str, json: &Json) -> Option<usize> {
        match kind {
            "array" => {
                let item = self.node(json.get("items")?)?;
                Some(self.push(SchemaNode::Array(item)))
            }
            "map" => {
                let value = self.node(json.get("values")?)?;
                Some(self.push(SchemaNode::Map(value)))
            }
            "fixed" => {
                let size = usize::try_from(json.get("size")?.as_u64()?).ok()?;
                Some(self.name(json, SchemaNode::Fixed(size))?)
            }
            "enum" => self.name(json, SchemaNode::Enum),
            "record" | "error" => {
                let record = self.name(json, SchemaNode::Record(Vec::new()))?;
                let mut fields = Vec::new();
                for field in json.get("fields")?.as_array()? {
                    let id = field.get("field-id").and_then(Json::as_i64);
                    let id = id.and_then(|id| i32::try_from(id).ok()).unwrap_or(NONE);
                    fields.push((id, self.node(field.get("type")?)?));
                }
                self.nodes[record] = SchemaNode::Record(fields);
                Some(record)
            }
            other => match primitive(other) {
                Some(node) => Some(self.push(node)),
                None => self.named.get(other.rsplit('.').next()?).copied(),
            },
        }
    }

    fn push(&mut self, node: SchemaNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds the node of a named type, so that later parts of the schema can refer to it by its name.
    fn name(&mut self, json: &Json, node: SchemaNode) -> Option<usize> {
        let name = json.get("name")?.as_str()?.rsplit('.').next()?.to_owned();
        let at = self.push(node);
        self.named.insert(name, at);
        Some(at)
    }
}

fn primitive(name: &str) -> Option<SchemaNode> {
    Some(match name {
        "null" => SchemaNode::Null,
        "boolean" => SchemaNode::Boolean,
        "int" => SchemaNode::Int,
        "long" => SchemaNode::Long,
        "float" => SchemaNode::Float,
        "double" => SchemaNode::Double,
        "bytes" => SchemaNode::Bytes,
        "string" => SchemaNode::Text,
        _ => return None,
    })
}
