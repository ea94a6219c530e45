//! Images of the engine.

use std::fs::File;
use std::io::Read;

use serde_json::Value;

use crate::engine::error::{Result, What};
use crate::engine::{Answer, Engine, Sent};

/// Maximum size of an engine's report about loaded images, bytes.
const MOST_SAID: u64 = 1 << 20;

/// The settings of an image for its programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// The engine's unique identity of the image.
    pub id: String,
    /// The program.
    pub entrypoint: Vec<String>,
    /// The default arguments, or the program with its arguments.
    pub cmd: Vec<String>,
    /// The unpacked size, bytes; 0 if the engine does not report it.
    pub bytes: u64,
}

impl Engine {
    /// Returns an image; `None` if the engine has no image with this name.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn image(&self, name: &str) -> Result<Option<ImageConfig>> {
        let answer = match self.ask(
            "GET",
            &format!("/images/{}/json", quoted(name)),
            Sent::Nothing,
        ) {
            Err(error) if error.is_absent() => return Ok(None),
            other => other?.json()?,
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let words = |key: &str| {
            let words = answer["Config"][key].as_array();
            words.into_iter().flatten().filter_map(text).collect()
        };
        Ok(Some(ImageConfig {
            id: text(&answer["Id"]).unwrap_or_else(|| name.to_owned()),
            entrypoint: words("Entrypoint"),
            cmd: words("Cmd"),
            bytes: answer["Size"].as_u64().unwrap_or(0),
        }))
    }

    /// Requests a saved image: the answer's body is in the format of `docker save`.
    ///
    /// # Errors
    /// If no image has the name, or the engine does not answer.
    pub fn save(&self, name: &str) -> Result<Answer> {
        self.ask(
            "GET",
            &format!("/images/{}/get", quoted(name)),
            Sent::Nothing,
        )
    }

    /// Loads images into the engine, from a file in the format of `docker save`, read from its beginning.
    ///
    /// # Errors
    /// If the engine refuses an image.
    pub fn load(&self, saved: &File) -> Result<()> {
        let mut answer = self.ask("POST", "/images/load?quiet=true", Sent::Tar(saved))?;
        // The engine sends a successful status before it reads the images; later errors are in the body.
        let mut said = Vec::new();
        let read = answer.by_ref().take(MOST_SAID).read_to_end(&mut said);
        read.map_err(|e| self.error(What::Broken(e)))?;
        let lines = serde_json::Deserializer::from_slice(&said).into_iter::<Value>();
        for line in lines.map_while(std::result::Result::ok) {
            if let Some(wrong) = line["error"].as_str() {
                let wrong = crate::engine::error::shown(wrong.as_bytes());
                return Err(self.error(What::Odd(format!("it cannot take the image: {wrong}"))));
            }
        }
        Ok(())
    }
}

/// Escapes a name for use in a path or a query. `/` and `:` are parts of names and stay.
pub(crate) fn quoted(name: &str) -> String {
    let mut quoted = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b':' => {
                quoted.push(byte.into());
            }
            _ => quoted.push_str(&format!("%{byte:02X}")),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(quoted("ghcr.io/a/b:1"), "ghcr.io/a/b:1");
        assert_eq!(
            quoted("a@sha256:0 HTTP/1.1\r\n"),
            "a%40sha256:0%20HTTP/1.1%0D%0A"
        );
    }
}
