//! Tests of the module `radio`.

mod itur;
