//! Tests of the module `rules`.

mod reference;
