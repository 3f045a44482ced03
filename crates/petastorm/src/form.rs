//! Turns the values of a pickle, which are plain data, into a [`Unischema`]. Petastorm has written schemas in
//! several forms:
//!
//! | what | written as |
//! |---|---|
//! | an instance of a class | a new object of the class; or `_reconstructor` of the class and `object` |
//! | a field | a new `UnischemaField`; `_reconstructor` of that class and `tuple`; `_restore` with names and values |
//! | the fields | an `OrderedDict` of a list of pairs, or an `OrderedDict` to which items are added |
//!
//! Unknown attributes are ignored. They are plain data too, so they can do no harm.

use std::collections::HashSet;

use forebay_base::{Place, Result};

use crate::budget::Budget;
use crate::codec::Codec;
use crate::dtype::Dtype;
use crate::fail::{malformed, shortened};
use crate::heap::{Heap, HeapValue, How, Node, Object};
use crate::name::Name;
use crate::scalar;
use crate::spark::{SparkClass, SparkType};
use crate::unischema::{Field, Unischema};

/// How deeply Spark's arrays may be nested.
const MAX_NESTING: usize = 8;

/// The precision and scale of Spark's decimals if the schema does not give them.
const DECIMAL: (u32, i32) = (10, 0);

/// The names of a field's parts, in the order of the named tuple `UnischemaField`.
const PARTS: [&str; 5] = ["name", "numpy_dtype", "shape", "codec", "nullable"];

/// Reads a [`Unischema`] from `value`.
pub(crate) fn unischema(value: HeapValue, heap: &Heap, budget: &mut Budget) -> Result<Unischema> {
    let mut form = SchemaReader { heap, budget };
    let (name, state) = form.instance(value).ok_or_else(|| malformed("it is not an object of a class"))?;
    if name != Name::Unischema {
        return Err(malformed("it is an object of another class"));
    }
    let fields = form.attribute(state, "_fields")?.ok_or_else(|| malformed("it has no `_fields`"))?;
    let name = form.attribute(state, "_name")?.ok_or_else(|| malformed("it has no `_name`"))?;
    Ok(Unischema { name: form.text(name, "its name")?, fields: form.fields(fields)? })
}

struct SchemaReader<'a> {
    heap: &'a Heap,
    budget: &'a mut Budget,
}

impl<'a> SchemaReader<'a> {
    fn fields(&mut self, value: HeapValue) -> Result<Vec<Field>> {
        let mut names = HashSet::new();
        let mut fields = Vec::new();
        for (key, value) in self.ordered(value)? {
            // These lines take the memory of the field, and of its name in `names`, from the budget.
            self.budget.grow::<Field>(1)?;
            self.budget.grow::<[&str; 2]>(1)?;
            let field = self.field(value)?;
            let key = self.heap.as_text(key);
            if key != Some(field.name.as_str()) {
                return Err(malformed(format!(
                    "the field `{}` has another name as key",
                    shortened(&field.name)
                )));
            }
            if !names.insert(key) {
                return Err(malformed(format!("two fields are named `{}`", shortened(&field.name))));
            }
            fields.push(field);
        }
        Ok(fields)
    }

    /// The keys and values of an `OrderedDict`.
    fn ordered(&mut self, value: HeapValue) -> Result<Vec<(HeapValue, HeapValue)>> {
        let dict = self.heap.as_object(value).filter(|object| object.callee == Name::OrderedDict);
        let dict = dict.ok_or_else(|| malformed("`_fields` is not an `OrderedDict`"))?;
        let pairs = match self.arguments(dict) {
            [] => &[],
            [pairs] => self.heap.as_sequence(*pairs).ok_or_else(|| malformed("`_fields` has no pairs"))?,
            _ => return Err(malformed("`_fields` has too many arguments")),
        };
        self.budget.steps(pairs.len() + dict.items.len())?;
        self.budget.block((pairs.len() + dict.items.len()) * size_of::<(HeapValue, HeapValue)>())?;
        let mut all = Vec::with_capacity(pairs.len() + dict.items.len());
        for pair in pairs {
            match self.heap.as_sequence(*pair) {
                Some([key, value]) => all.push((*key, *value)),
                _ => return Err(malformed("`_fields` has what is not a pair")),
            }
        }
        all.extend_from_slice(&dict.items);
        Ok(all)
    }

    fn field(&mut self, value: HeapValue) -> Result<Field> {
        let [name, dtype, shape, codec, nullable] = self.parts(value)?;
        let name = self.text(name, "the name of a field")?;
        let read = |form: &mut Self| {
            let (dtype, shape) = (form.dtype(dtype)?, form.shape(shape)?);
            let (codec, nullable) = (form.codec(codec)?, form.nullable(nullable)?);
            Ok((dtype, shape, codec, nullable))
        };
        match read(self) {
            Ok((dtype, shape, codec, nullable)) => Ok(Field { name, dtype, shape, codec, nullable }),
            Err(error) => Err(forebay_base::Error::at(error, Place::default().column(shortened(&name)))),
        }
    }

    /// The five parts of a field (see [`PARTS`]), which a pickle holds in one of three forms.
    fn parts(&mut self, value: HeapValue) -> Result<[HeapValue; 5]> {
        self.budget.steps(1)?;
        let no_field = || malformed("`_fields` has what is not a `UnischemaField`");
        let object = self.heap.as_object(value).ok_or_else(no_field)?;
        let is_field = |class: &HeapValue| *class == HeapValue::Name(Name::UnischemaField);
        let values = match (object.how, object.callee, self.arguments(object)) {
            (How::New, Name::UnischemaField, values) => Some(values),
            (How::Reduce, Name::Reconstructor, [class, HeapValue::Name(Name::Tuple), values])
                if is_field(class) =>
            {
                self.heap.as_tuple(*values)
            }
            (How::Reduce, Name::Restore, [class, names, values]) => {
                return self.restored(*class, *names, *values).ok_or_else(no_field);
            }
            _ => None,
        };
        values.and_then(|values| values.try_into().ok()).ok_or_else(no_field)
    }

    /// The parts of a field that a pickle holds as a list of names and a list of values. They are returned in
    /// the order of [`PARTS`].
    fn restored(&self, class: HeapValue, names: HeapValue, values: HeapValue) -> Option<[HeapValue; 5]> {
        let names: &[HeapValue; 5] = self.heap.as_sequence(names)?.try_into().ok()?;
        let values: &[HeapValue; 5] = self.heap.as_sequence(values)?.try_into().ok()?;
        if self.heap.as_text(class)? != "UnischemaField" {
            return None;
        }
        let mut parts = [HeapValue::None; 5];
        for (part, wanted) in parts.iter_mut().zip(PARTS) {
            let place = names.iter().position(|name| self.heap.as_text(*name) == Some(wanted))?;
            *part = values[place];
        }
        Some(parts)
    }

    /// Reads the type of a field, which is a class or a `numpy.dtype`.
    fn dtype(&mut self, value: HeapValue) -> Result<Dtype> {
        match value {
            HeapValue::Name(Name::Type(dtype)) => Ok(dtype),
            _ => scalar::dtype(value, self.heap),
        }
    }

    fn shape(&mut self, value: HeapValue) -> Result<Vec<Option<u64>>> {
        let lengths = self.heap.as_sequence(value).ok_or_else(|| malformed("its shape is not a tuple"))?;
        self.budget.steps(lengths.len())?;
        self.budget.block(lengths.len() * size_of::<Option<u64>>())?;
        let length = |value: &HeapValue| match value {
            HeapValue::None => Ok(None),
            _ => match scalar::integer(*value, self.heap).and_then(|length| u64::try_from(length).ok()) {
                Some(length) => Ok(Some(length)),
                None => Err(malformed("its shape has what is not a length")),
            },
        };
        let mut shape = Vec::with_capacity(lengths.len());
        for value in lengths {
            shape.push(length(value)?);
        }
        Ok(shape)
    }

    fn nullable(&mut self, value: HeapValue) -> Result<bool> {
        match value {
            HeapValue::None => Ok(false),
            _ => match scalar::integer(value, self.heap) {
                Some(nullable @ 0..=1) => Ok(nullable == 1),
                _ => Err(malformed("whether it is nullable is not a boolean")),
            },
        }
    }

    fn codec(&mut self, value: HeapValue) -> Result<Option<Codec>> {
        if value == HeapValue::None {
            return Ok(None);
        }
        let (name, state) = self.instance(value).ok_or_else(|| malformed("its codec is not an object"))?;
        Ok(Some(match name {
            Name::ScalarCodec => {
                let spark_type = self.attribute(state, "_spark_type")?;
                let spark_type = spark_type.ok_or_else(|| malformed("its codec has no `_spark_type`"))?;
                Codec::Scalar(self.spark_type(spark_type, 0)?)
            }
            Name::NdarrayCodec => Codec::Ndarray,
            Name::CompressedNdarrayCodec => Codec::CompressedNdarray,
            Name::CompressedImageCodec => self.image(state)?,
            _ => return Err(malformed("its codec is an object of another class")),
        }))
    }

    fn image(&mut self, state: HeapValue) -> Result<Codec> {
        let format = match self.attribute(state, "_image_codec")? {
            Some(format) => Some(format),
            // Petastorm before 0.3 named the attribute differently.
            None => self.attribute(state, "_format")?,
        };
        let format = format.ok_or_else(|| malformed("its codec has no `_image_codec`"))?;
        let format = self.text(format, "the format of its codec")?;
        let format = format.strip_prefix('.').unwrap_or(&format).to_owned();
        Ok(Codec::CompressedImage {
            format,
            quality: self.number(state, "_quality", "the quality of its codec")?,
        })
    }

    fn spark_type(&mut self, value: HeapValue, depth: usize) -> Result<SparkType> {
        self.budget.steps(1)?;
        self.budget.block(size_of::<SparkType>())?;
        let Some((Name::Spark(class), state)) = self.instance(value) else {
            return Err(malformed("the type of its codec is not one of Spark"));
        };
        let length =
            |length: Option<u32>| length.ok_or_else(|| malformed("the type of its codec has no `length`"));
        Ok(match class {
            SparkClass::Decimal => SparkType::Decimal {
                precision: self.number(state, "precision", "its precision")?.unwrap_or(DECIMAL.0),
                scale: self.number(state, "scale", "its scale")?.unwrap_or(DECIMAL.1),
            },
            SparkClass::Char => SparkType::Char(length(self.number(state, "length", "its length")?)?),
            SparkClass::Varchar => SparkType::Varchar(length(self.number(state, "length", "its length")?)?),
            SparkClass::Array if depth == MAX_NESTING => {
                return Err(malformed(format!("its codec has arrays more than {MAX_NESTING} deep")));
            }
            SparkClass::Array => {
                let element = self.attribute(state, "elementType")?;
                let element =
                    element.ok_or_else(|| malformed("an array of its codec has no `elementType`"))?;
                SparkType::Array(Box::new(self.spark_type(element, depth + 1)?))
            }
            SparkClass::Plain(_) => {
                class.plain().ok_or_else(|| malformed("the type of its codec is unknown"))?
            }
        })
    }

    /// The class and the state (the attributes) of an object; `None` if it was not made as an instance of a
    /// class.
    fn instance(&self, value: HeapValue) -> Option<(Name, HeapValue)> {
        let object = self.heap.as_object(value)?;
        match (object.how, object.callee, self.arguments(object)) {
            (How::New, class, []) => Some((class, object.state)),
            (
                How::Reduce,
                Name::Reconstructor,
                [HeapValue::Name(class), HeapValue::Name(Name::Object), HeapValue::None],
            ) => Some((*class, object.state)),
            _ => None,
        }
    }

    fn arguments(&self, object: &Object) -> &'a [HeapValue] {
        self.heap.as_tuple(object.arguments).unwrap_or_default()
    }

    /// The attribute `name` in the state (the attributes) of an object, if it is there.
    fn attribute(&mut self, state: HeapValue, name: &str) -> Result<Option<HeapValue>> {
        let Some(Node::Dict(items)) = self.heap.node(state) else { return Ok(None) };
        self.budget.steps(items.len())?;
        let mut last_first = items.iter().rev();
        Ok(last_first.find(|(key, _)| self.heap.as_text(*key) == Some(name)).map(|(_, value)| *value))
    }

    /// The attribute `name` as a number; `None` if it is missing or `None` in Python.
    fn number<T: TryFrom<i64>>(&mut self, state: HeapValue, name: &str, what: &str) -> Result<Option<T>> {
        match self.attribute(state, name)? {
            None | Some(HeapValue::None) => Ok(None),
            Some(value) => {
                match scalar::integer(value, self.heap).and_then(|number| T::try_from(number).ok()) {
                    Some(number) => Ok(Some(number)),
                    None => Err(malformed(format!("{what} is not a number that it may be"))),
                }
            }
        }
    }

    /// Copies the text in `value`. If it is not text, the error calls it `what`.
    fn text(&mut self, value: HeapValue, what: &str) -> Result<String> {
        let text = self.heap.as_text(value).ok_or_else(|| malformed(format!("{what} is not text")))?;
        self.budget.block(text.len())?;
        Ok(text.to_owned())
    }
}
