//! The page's types are those of the server.

use std::path::Path;

#[test]
fn the_pages_types_are_the_servers() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/types.ts");
    let types = constel_web::typescript::types();
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(&file, &types).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, types, "CONSTEL_BLESS=1 writes web/src/types.ts anew");
}
