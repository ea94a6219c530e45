//! Prints the schema: `cargo run -p constel-api --example schema > docs/reference/api.schema.json`.

fn main() {
    print!("{}", constel_api::schema_json());
}
