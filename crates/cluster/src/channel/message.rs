//! The messages of a connection: a byte that names the kind, and the content.

use std::io;

use serde::{Deserialize, Serialize};

/// Maximum number of bytes of input or output in a message.
pub(crate) const PIECE_BYTES: usize = 32 << 10;
/// Maximum length of a message: that of a request with its words.
pub(super) const MESSAGE_BYTES: usize = 320 << 10;

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of columns.
    pub columns: u16,
    /// Number of rows.
    pub rows: u16,
}

/// A command about a lab, as its first message has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The lab.
    pub lab: String,
    /// The verb with its flags.
    pub verb: Vec<String>,
    /// The arguments after the lab's name.
    pub args: Vec<String>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The command to run. The requester sends it first, and once.
    Command(Command),
    /// Bytes for the command to read.
    Input(Vec<u8>),
    /// No input follows.
    InputEnd,
    /// The size of the requester's terminal.
    Size(Size),
    /// Bytes of the command's standard output.
    Output(Vec<u8>),
    /// Bytes of its standard error.
    Errors(Vec<u8>),
    /// The command's exit code, as a shell reports it. The last message.
    Exit(i32),
    /// The machine has no part of this lab. The last message.
    NoPart,
}

impl Message {
    /// Returns the bytes of a message.
    ///
    /// # Errors
    /// If it is longer than a message may be.
    pub fn pack(&self) -> io::Result<Vec<u8>> {
        let (kind, content): (u8, &[u8]) = match self {
            Self::Command(command) => {
                return bounded([b"c", serde_json::to_vec(command)?.as_slice()].concat());
            }
            Self::Size(Size { columns, rows }) => {
                let [[a, b], [c, d]] = [columns, rows].map(|side| side.to_be_bytes());
                return Ok(vec![b's', a, b, c, d]);
            }
            Self::Exit(code) => return Ok([b"x", &code.to_be_bytes()[..]].concat()),
            Self::Input(bytes) => (b'i', bytes),
            Self::InputEnd => (b'.', &[]),
            Self::Output(bytes) => (b'o', bytes),
            Self::Errors(bytes) => (b'e', bytes),
            Self::NoPart => (b'n', &[]),
        };
        bounded([&[kind], content].concat())
    }

    /// Parses a message.
    ///
    /// # Errors
    /// If no end writes such a message.
    pub fn unpack(bytes: &[u8]) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a message of an unknown form");
        let (kind, content) = bytes.split_first().ok_or_else(wrong)?;
        Ok(match (kind, content) {
            (b'c', json) => Self::Command(serde_json::from_slice(json)?),
            (b'i', bytes) => Self::Input(bytes.to_vec()),
            (b'.', []) => Self::InputEnd,
            (b's', &[a, b, c, d]) => {
                let [columns, rows] = [[a, b], [c, d]].map(u16::from_be_bytes);
                Self::Size(Size { columns, rows })
            }
            (b'o', bytes) => Self::Output(bytes.to_vec()),
            (b'e', bytes) => Self::Errors(bytes.to_vec()),
            (b'x', &[a, b, c, d]) => Self::Exit(i32::from_be_bytes([a, b, c, d])),
            (b'n', []) => Self::NoPart,
            _ => return Err(wrong()),
        })
    }
}

fn bounded(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    match bytes.len() <= MESSAGE_BYTES {
        true => Ok(bytes),
        false => {
            let error = format!(
                "a command of {} bytes, and at most {MESSAGE_BYTES} travel to another machine",
                bytes.len()
            );
            Err(io::Error::new(io::ErrorKind::InvalidInput, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_others_are_refused() {
        let command = Command {
            lab: "l".to_owned(),
            verb: vec!["exec".to_owned()],
            args: vec!["tokyo".to_owned()],
        };
        let size = Size {
            columns: 258,
            rows: 31,
        };
        for message in [
            Message::Command(command.clone()),
            Message::Input(b"a".to_vec()),
            Message::Input(Vec::new()),
            Message::InputEnd,
            Message::Size(size),
            Message::Output(vec![0, 255]),
            Message::Errors(b"e".to_vec()),
            Message::Exit(-1),
            Message::NoPart,
        ] {
            assert_eq!(Message::unpack(&message.pack().unwrap()).unwrap(), message);
        }
        for wrong in [&b""[..], b"?", b"c{}", b"s123", b"x12345", b".1", b"n1"] {
            assert!(Message::unpack(wrong).is_err(), "{wrong:?}");
        }
        let long = Command {
            args: vec!["a".repeat(MESSAGE_BYTES)],
            ..command
        };
        let error = Message::Command(long).pack().unwrap_err();
        assert!(error.to_string().contains("at most 327680"), "{error}");
    }
}
