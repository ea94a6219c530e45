//! Images that the engine has.

use std::fs::File;
use std::io::Read;

use serde_json::Value;

use crate::error::{Result, What};
use crate::{Answer, Engine, Sent};

/// An engine that says more than this about images is not listened to.
const MOST_SAID: u64 = 1 << 20;

/// What an image says of how it is run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// The engine's own name for it, which is of no other one.
    pub id: String,
    /// The program.
    pub entrypoint: Vec<String>,
    /// Its arguments, or the program with its arguments.
    pub cmd: Vec<String>,
    /// How large it is unpacked, bytes; 0 if the engine does not say.
    pub bytes: u64,
}

impl Engine {
    /// An image; `None` if the engine has none of the name.
    ///
    /// # Errors
    /// When it does not answer.
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

    /// Has an image saved: the answer's body is what `docker save` writes.
    ///
    /// # Errors
    /// When there is none of the name, or the engine does not answer.
    pub fn save(&self, name: &str) -> Result<Answer> {
        self.ask(
            "GET",
            &format!("/images/{}/get", quoted(name)),
            Sent::Nothing,
        )
    }

    /// Gives the engine images: what `docker save` writes, from the file's beginning.
    ///
    /// # Errors
    /// When the engine refuses one.
    pub fn load(&self, saved: &File) -> Result<()> {
        let mut answer = self.ask("POST", "/images/load?quiet=true", Sent::Tar(saved))?;
        // It says that it takes them before it has; what goes wrong then is in what it says.
        let mut said = Vec::new();
        let read = answer.by_ref().take(MOST_SAID).read_to_end(&mut said);
        read.map_err(|e| self.error(What::Broken(e)))?;
        let lines = serde_json::Deserializer::from_slice(&said).into_iter::<Value>();
        for line in lines.map_while(std::result::Result::ok) {
            if let Some(wrong) = line["error"].as_str() {
                let wrong = crate::error::shown(wrong.as_bytes());
                return Err(self.error(What::Odd(format!("it cannot take the image: {wrong}"))));
            }
        }
        Ok(())
    }
}

/// A name as a part of a path or of a query: what has a meaning there is escaped. `/` and `:` are parts of names.
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
