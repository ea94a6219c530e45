//! The shipped schema is that of the types.

#[test]
fn the_shipped_schema_is_that_of_the_types() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/information.schema.json"
    );
    let shipped = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        shipped == constel_plan::information::schema_json(),
        "make it anew: cargo run -p constel-plan --example information_schema > {path}"
    );
}
