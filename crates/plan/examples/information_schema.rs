//! Prints what is shipped as `docs/reference/information.schema.json`.

fn main() {
    print!("{}", constel_plan::information::schema_json());
}
