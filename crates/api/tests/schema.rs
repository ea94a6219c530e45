//! The shipped schema is that of the code.

#[test]
fn the_shipped_schema_is_that_of_the_code() {
    let path = "../../docs/reference/api.schema.json";
    let shipped = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        shipped == constel_api::schema_json(),
        "{path} is not up to date: cargo run -p constel-api --example api_schema > docs/reference/api.schema.json"
    );
}
