//! An ONNX graph under construction: nodes, constants, inputs and outputs.

use std::collections::BTreeMap;

use crate::protobuf::Message;

/// The element type of a tensor, with its code in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Float = 1,
    Integer = 7,
    Text = 8,
    Bool = 9,
    Double = 11,
}

/// A dimension of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dimension {
    /// The number of rows, any.
    Batch,
    /// A fixed size.
    Fixed(usize),
}

/// The name of a value.
pub(super) type Value = String;

/// An attribute of a node.
pub(super) enum Attribute<'a> {
    Integer(&'static str, i64),
    Integers(&'static str, &'a [i64]),
    Float(&'static str, f32),
    Floats(&'static str, &'a [f32]),
    Texts(&'static str, &'a [String]),
    Graph(&'static str, &'a Message),
}

/// A constant tensor's content.
pub(super) enum Tensor<'a> {
    Floats(&'a [f32]),
    Doubles(&'a [f64]),
    Integers(&'a [i64]),
    Bools(&'a [bool]),
}

/// A graph, or the body of a loop. Names of all values but inputs and outputs start with the prefix, so that they never
/// collide with the names of columns.
pub(super) struct Graph {
    prefix: &'static str,
    content: Message,
    ends: Message,
    n_values: usize,
    scalars: BTreeMap<(u8, u64), Value>,
}

/// What the names of inner values start with.
pub(super) const PREFIX: &str = "pervade.";
const BODY_PREFIX: &str = "pervade.sample.";

/// Fields of GraphProto.
const NODE: u64 = 1;
const NAME: u64 = 2;
const INITIALIZER: u64 = 5;
const INPUT: u64 = 11;
const OUTPUT: u64 = 12;

impl Graph {
    /// The main graph.
    pub(super) fn new() -> Self {
        Self::with_prefix(PREFIX)
    }

    /// The body of a loop, which can use the values of the main graph.
    pub(super) fn body() -> Self {
        Self::with_prefix(BODY_PREFIX)
    }

    fn with_prefix(prefix: &'static str) -> Self {
        let (content, ends) = (Message::new(), Message::new());
        Self { prefix, content, ends, n_values: 0, scalars: BTreeMap::new() }
    }

    fn new_name(&mut self, what: &str) -> Value {
        self.n_values += 1;
        format!("{}{}_{}", self.prefix, what.to_ascii_lowercase(), self.n_values)
    }

    /// The result of an operation without attributes.
    pub(super) fn op(&mut self, op: &str, inputs: &[&str]) -> Value {
        self.op_with(op, inputs, &[])
    }

    /// The result of an operation.
    pub(super) fn op_with(&mut self, op: &str, inputs: &[&str], attributes: &[Attribute<'_>]) -> Value {
        let output = self.new_name(op);
        self.op_into(op, inputs, attributes, &output);
        output
    }

    /// An operation whose result has a name.
    pub(super) fn op_into(&mut self, op: &str, inputs: &[&str], attributes: &[Attribute<'_>], output: &str) {
        let mut node = inputs.iter().fold(Message::new(), |node, input| node.text(1, input));
        node = node.text(2, output).text(4, op);
        node = attributes.iter().fold(node, |node, attribute| node.message(5, &attribute.message()));
        if op == "LabelEncoder" {
            node = node.text(7, "ai.onnx.ml");
        }
        self.content = std::mem::take(&mut self.content).message(NODE, &node);
    }

    /// A constant tensor; of no dimensions, a scalar.
    pub(super) fn constant(&mut self, dims: &[usize], tensor: &Tensor<'_>) -> Value {
        let name = self.new_name("constant");
        self.named_constant(&name, dims, tensor);
        name
    }

    /// A constant tensor with a name of its own, such as the weights of a layer.
    pub(super) fn weights(&mut self, name: &str, dims: &[usize], values: &[f32]) -> Value {
        let name = format!("{}{name}", self.prefix);
        self.named_constant(&name, dims, &Tensor::Floats(values));
        name
    }

    fn named_constant(&mut self, name: &str, dims: &[usize], tensor: &Tensor<'_>) {
        let (element, raw): (Element, Vec<u8>) = match tensor {
            Tensor::Floats(x) => (Element::Float, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Tensor::Doubles(x) => (Element::Double, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Tensor::Integers(x) => (Element::Integer, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Tensor::Bools(x) => (Element::Bool, x.iter().map(|&x| u8::from(x)).collect()),
        };
        let dims = dims.iter().fold(Message::new(), |m, &dim| m.integer(1, dim as i64));
        let tensor = dims.integer(2, element as i64).text(8, name).raw(9, &raw);
        self.content = std::mem::take(&mut self.content).message(INITIALIZER, &tensor);
    }

    /// A scalar in double precision.
    pub(super) fn double(&mut self, value: f64) -> Value {
        self.scalar(Element::Double, value.to_bits(), &Tensor::Doubles(&[value]))
    }

    /// A scalar in single precision.
    pub(super) fn float(&mut self, value: f32) -> Value {
        self.scalar(Element::Float, u64::from(value.to_bits()), &Tensor::Floats(&[value]))
    }

    fn scalar(&mut self, element: Element, bits: u64, tensor: &Tensor<'_>) -> Value {
        if let Some(name) = self.scalars.get(&(element as u8, bits)) {
            return name.clone();
        }
        let name = self.constant(&[], tensor);
        self.scalars.insert((element as u8, bits), name.clone());
        name
    }

    /// A list of integers.
    pub(super) fn integers(&mut self, values: &[i64]) -> Value {
        self.constant(&[values.len()], &Tensor::Integers(values))
    }

    /// A row of numbers in double precision.
    pub(super) fn doubles(&mut self, values: &[f64]) -> Value {
        self.constant(&[values.len()], &Tensor::Doubles(values))
    }

    /// A row of numbers in single precision.
    pub(super) fn floats(&mut self, values: &[f32]) -> Value {
        self.constant(&[values.len()], &Tensor::Floats(values))
    }

    /// A row of truth values.
    pub(super) fn bools(&mut self, values: &[bool]) -> Value {
        self.constant(&[values.len()], &Tensor::Bools(values))
    }

    pub(super) fn add(&mut self, a: &str, b: &str) -> Value {
        self.op("Add", &[a, b])
    }

    pub(super) fn sub(&mut self, a: &str, b: &str) -> Value {
        self.op("Sub", &[a, b])
    }

    pub(super) fn mul(&mut self, a: &str, b: &str) -> Value {
        self.op("Mul", &[a, b])
    }

    pub(super) fn cast(&mut self, x: &str, to: Element) -> Value {
        self.op_with("Cast", &[x], &[Attribute::Integer("to", to as i64)])
    }

    /// The chosen columns of a matrix.
    pub(super) fn columns(&mut self, x: &str, columns: &[usize]) -> Value {
        let columns = self.integers(&columns.iter().map(|&j| j as i64).collect::<Vec<i64>>());
        self.op_with("Gather", &[x, &columns], &[Attribute::Integer("axis", 1)])
    }

    /// Columns of matrices next to each other.
    pub(super) fn concat(&mut self, parts: &[Value]) -> Value {
        if let [only] = parts {
            return only.clone();
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.op_with("Concat", &parts, &[Attribute::Integer("axis", 1)])
    }

    /// The sum over an axis, which disappears unless `keep`.
    pub(super) fn sum(&mut self, x: &str, axis: i64, keep: bool) -> Value {
        let axis = self.integers(&[axis]);
        self.op_with("ReduceSum", &[x, &axis], &[Attribute::Integer("keepdims", i64::from(keep))])
    }

    /// ln of the sum of e^x over an axis, which disappears.
    pub(super) fn log_sum_exp(&mut self, x: &str, axis: i64) -> Value {
        let along = [Attribute::Integers("axes", &[axis]), Attribute::Integer("keepdims", 1)];
        let greatest = self.op_with("ReduceMax", &[x], &along);
        let less = self.sub(x, &greatest);
        let powers = self.op("Exp", &[&less]);
        let sum = self.sum(&powers, axis, true);
        let log = self.op("Log", &[&sum]);
        let both = self.add(&greatest, &log);
        let axis = self.integers(&[axis]);
        self.op("Squeeze", &[&both, &axis])
    }

    /// Within bounds.
    pub(super) fn clip(&mut self, x: &str, low: &str, high: &str) -> Value {
        self.op("Clip", &[x, low, high])
    }

    /// Adds an input with a description.
    pub(super) fn input(&mut self, name: &str, element: Element, dims: &[Dimension], description: &str) {
        self.end(INPUT, name, element, dims, description);
    }

    /// Adds an output with a description.
    pub(super) fn output(&mut self, name: &str, element: Element, dims: &[Dimension], description: &str) {
        self.end(OUTPUT, name, element, dims, description);
    }

    fn end(&mut self, field: u64, name: &str, element: Element, dims: &[Dimension], description: &str) {
        let shape = dims.iter().fold(Message::new(), |shape, dim| {
            shape.message(
                1,
                &match dim {
                    Dimension::Batch => Message::new().text(2, "batch"),
                    Dimension::Fixed(n) => Message::new().integer(1, *n as i64),
                },
            )
        });
        let tensor = Message::new().integer(1, element as i64).message(2, &shape);
        let mut info = Message::new().text(1, name).message(2, &Message::new().message(1, &tensor));
        if !description.is_empty() {
            info = info.text(3, description);
        }
        self.ends = std::mem::take(&mut self.ends).message(field, &info);
    }

    /// The finished graph.
    pub(super) fn finish(self, name: &str) -> Message {
        Message::new().text(NAME, name).extend(&self.ends).extend(&self.content)
    }
}

impl Attribute<'_> {
    fn message(&self) -> Message {
        let named = |name: &str, code: i64| Message::new().text(1, name).integer(20, code);
        match self {
            Attribute::Float(name, value) => named(name, 1).float(2, *value),
            Attribute::Integer(name, value) => named(name, 2).integer(3, *value),
            Attribute::Graph(name, graph) => named(name, 5).message(6, graph),
            Attribute::Floats(name, values) => values.iter().fold(named(name, 6), |m, &x| m.float(7, x)),
            Attribute::Integers(name, values) => values.iter().fold(named(name, 7), |m, &x| m.integer(8, x)),
            Attribute::Texts(name, values) => values.iter().fold(named(name, 8), |m, x| m.text(9, x)),
        }
    }
}
