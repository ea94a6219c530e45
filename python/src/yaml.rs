//! YAML as Python's values, by the rules that scenarios are read by; quantities of time.

use constel_scenario::yaml::{Core, Node, Value, core_type, read};
use constel_scenario::{Diagnostics, Source};
use constel_units::TimeSpan;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::failure;

/// A document as dictionaries, lists, texts, numbers, booleans and None, in the file's order.
///
/// # Errors
/// `ScenarioError` with what is no YAML.
#[pyfunction]
pub(crate) fn parse_yaml<'py>(
    py: Python<'py>,
    shown: &str,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::new(shown, text);
    let root = read(&source).map_err(|error| failure::invalid(&Diagnostics::from(*error)))?;
    object(py, &root)
}

fn object<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyAny>> {
    match &node.value {
        Value::Scalar { text, plain: true } => match core_type(text) {
            Core::Null => Ok(py.None().into_bound(py)),
            Core::Bool(value) => Ok(value.into_pyobject(py)?.to_owned().into_any()),
            // Of any size: Python's own reading.
            Core::Integer => py.get_type::<pyo3::types::PyInt>().call1((text,)),
            Core::Float => py.get_type::<pyo3::types::PyFloat>().call1((text,)),
            Core::Text => Ok(text.into_pyobject(py)?.into_any()),
        },
        Value::Scalar { text, .. } => Ok(text.into_pyobject(py)?.into_any()),
        Value::Sequence(items) => {
            let items: PyResult<Vec<_>> = items.iter().map(|item| object(py, item)).collect();
            Ok(PyList::new(py, items?)?.into_any())
        }
        Value::Mapping(entries) => {
            let made = PyDict::new(py);
            for entry in entries {
                made.set_item(&entry.key, object(py, &entry.value)?)?;
            }
            Ok(made.into_any())
        }
    }
}

/// A time span such as `1.5 s` in nanoseconds.
///
/// # Errors
/// `UsageError`, when the text is no time span.
#[pyfunction]
pub(crate) fn nanoseconds(text: &str) -> PyResult<i64> {
    text.parse::<TimeSpan>()
        .map(TimeSpan::ns)
        .map_err(failure::usage)
}
