//! Prints the schema: `cargo run -p constel-api --example api_schema > docs/reference/api.schema.json`.

fn main() {
    print!("{}", constel_api::schema_json());
}
