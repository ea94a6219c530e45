//! Tests of the module `medium`.

mod curves;
mod drive;
