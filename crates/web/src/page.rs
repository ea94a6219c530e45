//! The page, as `make web` built it: compressed, and part of the program.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::http::{Answer, Head};

const FILES: [(&str, &str, &[u8]); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../page/index.html.gz"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/app.js.gz"),
    ),
    (
        "/app.css",
        "text/css; charset=utf-8",
        include_bytes!("../page/app.css.gz"),
    ),
    (
        "/land.json",
        "application/json",
        include_bytes!("../page/land.json.gz"),
    ),
];

/// Returns the paths of the files with their media types.
pub(crate) fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().map(|(path, kind, _)| (*path, *kind))
}

/// A file of the page; nothing secret is in them.
#[must_use]
pub(crate) fn file(head: &Head) -> Option<Answer> {
    let (_, kind, body) = FILES.iter().find(|(path, ..)| *path == head.path)?;
    let mut digest = DefaultHasher::new();
    body.hash(&mut digest);
    let etag = format!("\"{:016x}\"", digest.finish());
    let known = head.only("if-none-match") == Some(etag.as_str());
    Some(Answer {
        status: if known { 304 } else { 200 },
        kind,
        body: if known { Vec::new() } else { body.to_vec() },
        gzip: !known,
        etag: Some(etag),
        cookie: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_page_is_small_and_names_no_other_place() {
        let sizes: usize = FILES.iter().map(|(.., body)| body.len()).sum();
        assert!(sizes <= 600_000, "{sizes} bytes compressed");
        let mut text = String::new();
        let (_, _, body) = FILES[0];
        flate2::read::GzDecoder::new(body)
            .read_to_string(&mut text)
            .unwrap();
        assert!(!text.contains("://"), "{text}");
    }
}
