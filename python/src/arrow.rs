//! Tables as Arrow's C stream interface: <https://arrow.apache.org/docs/format/CStreamInterface.html>. A field has its unit as
//! metadata (`unit`).
//!
//! The three structures are fixed for ever, and what we hand over is one batch of four simple types without a copy. The
//! `arrow` crates would be 17 more crates to compile, for less than what is here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use constel_measure::columns::unit_of_column;

use crate::table::{Column, Values};

const NULLABLE: i64 = 2;

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// A stream. A consumer that takes its content sets `release` to null; otherwise dropping it releases that.
#[repr(C)]
pub(crate) struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

// SAFETY: the content is reference-counted and never changed; the interface lets one thread at a time call.
unsafe impl Send for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the content was not taken, so it is still ours to release, once.
            unsafe { release(self) }
        }
    }
}

/// The state of a stream.
struct Source {
    columns: Arc<[Column]>,
    rows: usize,
    given: bool,
}

/// The data that a schema keeps alive.
struct SchemaOwned {
    columns: Arc<[Column]>,
    children: Vec<*mut Schema>,
    /// Key and value, in Arrow's form; empty for no metadata.
    metadata: Vec<u8>,
}

/// The data that an array keeps alive.
struct ArrayOwned {
    columns: Arc<[Column]>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// A stream of one batch.
pub(crate) fn stream(columns: Arc<[Column]>, rows: usize) -> Stream {
    let source = Source {
        columns,
        rows,
        given: false,
    };
    Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(source)).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the caller hands in a stream of ours that is not released, and room for a schema.
    unsafe {
        let source = &*(*stream).private_data.cast::<Source>();
        out.write(schema_of_all(&source.columns));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as in `get_schema`; only one thread at a time calls, so no other thread uses the source.
    unsafe {
        let source = &mut *(*stream).private_data.cast::<Source>();
        let next = if source.given {
            // The end: an array that is released already.
            Array {
                release: None,
                ..array(&source.columns, 0, 0, Vec::new(), Vec::new(), None)
            }
        } else {
            source.given = true;
            array_of_all(&source.columns, source.rows)
        };
        out.write(next);
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    // Nothing here fails.
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: called once, with a stream whose private data `stream()` made.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Source>()));
        (*stream).release = None;
    }
}

fn schema_of_all(columns: &Arc<[Column]>) -> Schema {
    let children = columns.iter().map(|column| {
        let format = match column.values {
            Values::Integer(_) => c"l",
            Values::Float(_) => c"g",
            Values::Bool(_) => c"b",
            Values::Text { .. } => c"U",
        };
        let unit = column.name.to_str().ok().and_then(unit_of_column);
        let metadata = unit.map_or_else(Vec::new, |unit| pair("unit", unit));
        let child = schema(columns, format, column.name.as_ptr(), Vec::new(), metadata);
        Box::into_raw(Box::new(child))
    });
    let children = children.collect();
    let all = schema(columns, c"+s", c"".as_ptr(), children, Vec::new());
    Schema { flags: 0, ..all }
}

/// Returns metadata of one key: the number of pairs, then each text behind its length, in the order of bytes of the machine.
fn pair(key: &str, value: &str) -> Vec<u8> {
    let mut bytes = 1_i32.to_ne_bytes().to_vec();
    for text in [key, value] {
        // Keys and units are a few letters.
        bytes.extend(i32::try_from(text.len()).unwrap_or(0).to_ne_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

fn schema(
    columns: &Arc<[Column]>,
    format: &'static CStr,
    name: *const c_char,
    children: Vec<*mut Schema>,
    metadata: Vec<u8>,
) -> Schema {
    let mut owned = Box::new(SchemaOwned {
        columns: Arc::clone(columns),
        children,
        metadata,
    });
    let metadata = match owned.metadata.as_slice() {
        [] => ptr::null(),
        bytes => bytes.as_ptr().cast(),
    };
    Schema {
        format: format.as_ptr(),
        name,
        metadata,
        flags: NULLABLE,
        n_children: count(owned.children.len()),
        children: owned.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(owned).cast(),
    }
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: called once, with a schema of ours. Children that the consumer moved away have no `release` any more; the
    // boxes are ours in either case.
    unsafe {
        let owned = Box::from_raw((*schema).private_data.cast::<SchemaOwned>());
        for &child in &owned.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        drop(owned.columns);
        (*schema).release = None;
    }
}

fn array_of_all(columns: &Arc<[Column]>, rows: usize) -> Array {
    let children = columns.iter().map(|column| {
        let valid = column.valid.as_ref();
        let mut buffers = vec![valid.map_or(ptr::null(), |bits| bits.bytes().as_ptr().cast())];
        match &column.values {
            Values::Integer(values) => buffers.push(values.as_ptr().cast()),
            Values::Float(values) => buffers.push(values.as_ptr().cast()),
            Values::Bool(bits) => buffers.push(bits.bytes().as_ptr().cast()),
            Values::Text { offsets, bytes } => {
                buffers.push(offsets.as_ptr().cast());
                buffers.push(bytes.as_ptr().cast());
            }
        }
        let nulls = valid.map_or(0, |bits| bits.zeros());
        let release = Some(release_array as unsafe extern "C" fn(*mut Array));
        let child = array(columns, rows, nulls, buffers, Vec::new(), release);
        Box::into_raw(Box::new(child))
    });
    let children = children.collect();
    // The structure itself has a value in every row.
    array(
        columns,
        rows,
        0,
        vec![ptr::null()],
        children,
        Some(release_array),
    )
}

fn array(
    columns: &Arc<[Column]>,
    rows: usize,
    nulls: usize,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    release: Option<unsafe extern "C" fn(*mut Array)>,
) -> Array {
    let (n_buffers, n_children) = (count(buffers.len()), count(children.len()));
    let mut owned = Box::new(ArrayOwned {
        columns: Arc::clone(columns),
        buffers,
        children,
    });
    let mut array = Array {
        length: count(rows),
        null_count: count(nulls),
        offset: 0,
        n_buffers,
        n_children,
        buffers: owned.buffers.as_mut_ptr(),
        children: owned.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release,
        private_data: ptr::null_mut(),
    };
    if release.is_some() {
        array.private_data = Box::into_raw(owned).cast();
    } else {
        (array.buffers, array.children) = (ptr::null_mut(), ptr::null_mut());
    }
    array
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as in `release_schema`.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<ArrayOwned>());
        for &child in &owned.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        drop(owned.columns);
        (*array).release = None;
    }
}

fn count(n: usize) -> i64 {
    // Memory does not have more.
    i64::try_from(n).unwrap_or(i64::MAX)
}
