//! Columns with names, of equal length.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use constel_measure::columns::unit_of_column;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::arrow;

/// Bits, eight to a byte, the lowest first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bits {
    bytes: Vec<u8>,
    len: usize,
    ones: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let (true, Some(last)) = (bit, self.bytes.last_mut()) {
            *last |= 1 << (self.len % 8);
        }
        self.len += 1;
        self.ones += usize::from(bit);
    }

    fn get(&self, at: usize) -> bool {
        self.bytes[at / 8] >> (at % 8) & 1 == 1
    }

    fn take(&self, rows: &[usize]) -> Self {
        let mut taken = Self::default();
        rows.iter().for_each(|at| taken.push(self.get(*at)));
        taken
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many are 0.
    pub(crate) fn zeros(&self) -> usize {
        self.len - self.ones
    }
}

/// The values of a column.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    Integer(Vec<i64>),
    Float(Vec<f64>),
    Bool(Bits),
    /// `offsets` has one more than there are texts.
    Text {
        offsets: Vec<i64>,
        bytes: Vec<u8>,
    },
}

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: CString,
    pub(crate) values: Values,
    /// The rows that have a value; `None`: all.
    pub(crate) valid: Option<Bits>,
}

/// A value of a column in the making.
pub(crate) trait Cell: Sized {
    fn column() -> Values;
    /// Adds the value; `None` as a place holder.
    fn put(value: Option<Self>, to: &mut Values);
}

macro_rules! plain_cell {
    ($type:ty, $variant:ident) => {
        impl Cell for $type {
            fn column() -> Values {
                Values::$variant(Vec::new())
            }
            fn put(value: Option<Self>, to: &mut Values) {
                if let Values::$variant(values) = to {
                    values.push(value.unwrap_or_default());
                }
            }
        }
    };
}
plain_cell!(i64, Integer);
plain_cell!(f64, Float);

impl Cell for bool {
    fn column() -> Values {
        Values::Bool(Bits::default())
    }
    fn put(value: Option<Self>, to: &mut Values) {
        if let Values::Bool(bits) = to {
            bits.push(value.unwrap_or_default());
        }
    }
}

/// A text that is copied in.
impl Cell for &str {
    fn column() -> Values {
        Values::Text {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }
    fn put(value: Option<Self>, to: &mut Values) {
        if let Values::Text { offsets, bytes } = to {
            bytes.extend_from_slice(value.unwrap_or_default().as_bytes());
            offsets.push(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        }
    }
}

impl Column {
    /// A column with a value in every row.
    pub(crate) fn full<C: Cell>(name: &str, values: impl IntoIterator<Item = C>) -> Self {
        let mut column = C::column();
        values
            .into_iter()
            .for_each(|value| C::put(Some(value), &mut column));
        Self::new(name, column, None)
    }

    /// A column with rows that have no value.
    pub(crate) fn partly<C: Cell>(name: &str, values: impl IntoIterator<Item = Option<C>>) -> Self {
        let (mut column, mut valid) = (C::column(), Bits::default());
        for value in values {
            valid.push(value.is_some());
            C::put(value, &mut column);
        }
        Self::new(name, column, Some(valid))
    }

    fn new(name: &str, values: Values, valid: Option<Bits>) -> Self {
        // Names are ours, or were checked by `Table::of`.
        let name = CString::new(name).unwrap_or_default();
        let valid = valid.filter(|valid| valid.zeros() > 0);
        Self {
            name,
            values,
            valid,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.values {
            Values::Integer(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Bool(bits) => bits.len,
            Values::Text { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Some of its rows.
    fn take(&self, rows: &[usize]) -> Self {
        let values = match &self.values {
            Values::Integer(values) => Values::Integer(rows.iter().map(|at| values[*at]).collect()),
            Values::Float(values) => Values::Float(rows.iter().map(|at| values[*at]).collect()),
            Values::Bool(bits) => Values::Bool(bits.take(rows)),
            Values::Text { offsets, bytes } => {
                let mut taken = <&str>::column();
                if let Values::Text {
                    offsets: ends,
                    bytes: texts,
                } = &mut taken
                {
                    for at in rows {
                        texts
                            .extend_from_slice(&bytes[place(offsets, *at)..place(offsets, at + 1)]);
                        ends.push(i64::try_from(texts.len()).unwrap_or(i64::MAX));
                    }
                }
                taken
            }
        };
        let valid = self.valid.as_ref().map(|valid| valid.take(rows));
        Self {
            name: self.name.clone(),
            values,
            valid: valid.filter(|valid| valid.zeros() > 0),
        }
    }

    fn kind(&self) -> &'static str {
        match &self.values {
            Values::Integer(_) => "integer",
            Values::Float(_) => "float",
            Values::Bool(_) => "bool",
            Values::Text { .. } => "text",
        }
    }

    fn get<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        if self.valid.as_ref().is_some_and(|valid| !valid.get(at)) {
            return Ok(py.None().into_bound(py));
        }
        match &self.values {
            Values::Integer(values) => values[at].into_bound_py_any(py),
            Values::Float(values) => values[at].into_bound_py_any(py),
            Values::Bool(bits) => bits.get(at).into_bound_py_any(py),
            Values::Text { offsets, bytes } => {
                let text = &bytes[place(offsets, at)..place(offsets, at + 1)];
                String::from_utf8_lossy(text).into_bound_py_any(py)
            }
        }
    }
}

/// The place of a text's first byte.
fn place(offsets: &[i64], at: usize) -> usize {
    usize::try_from(offsets[at]).unwrap_or(0)
}

/// Columns of equal length; what holds them is shared with those who read them as Arrow.
#[pyclass(frozen, module = "constel._native")]
#[derive(Debug)]
pub(crate) struct Table {
    columns: Arc<[Column]>,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        debug_assert!(columns.windows(2).all(|two| two[0].len() == two[1].len()));
        Self {
            columns: columns.into(),
        }
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }
}

#[pymethods]
impl Table {
    /// Makes a table of `(name, kind, values)`, kind being `integer`, `float`, `bool` or `text`; `None` is no value.
    #[staticmethod]
    fn of(columns: Vec<(String, String, Bound<'_, PyList>)>) -> PyResult<Self> {
        let mut made: Vec<Column> = Vec::with_capacity(columns.len());
        for (name, kind, values) in columns {
            if name.contains('\0') {
                return Err(PyValueError::new_err("a name of a column has no NUL"));
            }
            let column = match kind.as_str() {
                "integer" => Column::partly(&name, values.extract::<Vec<Option<i64>>>()?),
                "float" => Column::partly(&name, values.extract::<Vec<Option<f64>>>()?),
                "bool" => Column::partly(&name, values.extract::<Vec<Option<bool>>>()?),
                "text" => {
                    let texts = values.extract::<Vec<Option<String>>>()?;
                    Column::partly(&name, texts.iter().map(Option::as_deref))
                }
                other => {
                    let error = format!("{other:?} is no kind of a column");
                    return Err(PyValueError::new_err(error));
                }
            };
            if let Some(first) = made.first().filter(|first| first.len() != column.len()) {
                let (here, there) = (column.len(), first.len());
                let error = format!("column {name:?} has {here} rows, others have {there}");
                return Err(PyValueError::new_err(error));
            }
            made.push(column);
        }
        Ok(Self::new(made))
    }

    /// `(name, kind)` of every column.
    #[getter]
    fn schema(&self) -> Vec<(String, &'static str)> {
        let columns = self.columns.iter();
        columns
            .map(|column| (column.name.to_string_lossy().into_owned(), column.kind()))
            .collect()
    }

    /// The units of the columns that have one, by name.
    #[getter]
    fn units(&self) -> HashMap<String, &'static str> {
        let names = self
            .columns
            .iter()
            .map(|column| column.name.to_string_lossy());
        names
            .filter_map(|name| Some((name.clone().into_owned(), unit_of_column(&name)?)))
            .collect()
    }

    /// Some rows, in the order of `rows`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "arguments come from Python by value"
    )]
    fn take(&self, rows: Vec<usize>) -> PyResult<Self> {
        if let Some(row) = rows.iter().find(|row| **row >= self.rows()) {
            let error = format!("row {row} of {} rows", self.rows());
            return Err(PyIndexError::new_err(error));
        }
        let taken = self.columns.iter().map(|column| column.take(&rows));
        Ok(Self::new(taken.collect()))
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    /// The values of a column, or of a number of its rows.
    #[pyo3(signature = (name, first=0, rows=None))]
    fn column<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        first: usize,
        rows: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut columns = self.columns.iter();
        let Some(column) = columns.find(|column| column.name.as_bytes() == name.as_bytes()) else {
            return Err(PyKeyError::new_err(name.to_owned()));
        };
        let first = first.min(column.len());
        let end = first
            .saturating_add(rows.unwrap_or(column.len()))
            .min(column.len());
        let values: PyResult<Vec<_>> = (first..end).map(|at| column.get(py, at)).collect();
        PyList::new(py, values?)
    }

    /// The table as Arrow's C stream of one batch; nothing is copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer that requests another schema casts: the protocol permits us to answer with our own.
        drop(requested_schema);
        let stream = arrow::stream(Arc::clone(&self.columns), self.rows());
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
