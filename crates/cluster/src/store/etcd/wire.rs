//! Requests and answers of etcd's JSON gateway: bytes are base64, 64-bit numbers are strings, and zero values are left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::store::error::{Error, Result};
use crate::store::model::{
    Condition, Entry, Event, LeaseId, Listing, Operation, Outcome, Revision, Txn,
};

pub(super) fn bytes(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// Returns the first key and the end (base64) of the keys with a prefix. For an empty prefix both are a zero byte, which
/// selects all keys.
pub(super) fn prefix(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    // Adding 1 cannot overflow because no byte of a UTF-8 text is 255.
    match end.last_mut() {
        Some(last) => *last += 1,
        None => return ("\0".to_owned(), STANDARD.encode([0])),
    }
    (prefix.to_owned(), STANDARD.encode(end))
}

fn nonsense(what: &str) -> Error {
    Error::Answer(what.to_owned())
}

/// Returns a number. A missing field is zero.
pub(super) fn number(answer: &Value, field: &str) -> Result<u64> {
    match &answer[field] {
        // The JSON of etcd is that of protobuf: fields with the default value are absent, and 64-bit numbers are
        // strings.
        Value::Null => Ok(0),
        Value::String(text) => text.parse().map_err(|_| nonsense(field)),
        other => other.as_u64().ok_or_else(|| nonsense(field)),
    }
}

fn decoded(value: &Value, field: &str) -> Result<Vec<u8>> {
    match &value[field] {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => STANDARD.decode(text).map_err(|_| nonsense(field)),
        _ => Err(nonsense(field)),
    }
}

fn key(value: &Value) -> Result<String> {
    String::from_utf8(decoded(value, "key")?).map_err(|_| nonsense("a key that is no text"))
}

fn entry(value: &Value) -> Result<(String, Entry)> {
    let lease = number(value, "lease")?;
    let entry = Entry {
        value: decoded(value, "value")?,
        created: number(value, "create_revision")?,
        modified: number(value, "mod_revision")?,
        lease: (lease != 0).then_some(LeaseId(lease)),
    };
    Ok((key(value)?, entry))
}

fn rows<'a>(value: &'a Value, field: &str) -> Result<&'a [Value]> {
    match &value[field] {
        Value::Null => Ok(&[]),
        Value::Array(rows) => Ok(rows),
        _ => Err(nonsense(field)),
    }
}

pub(super) fn revision(answer: &Value) -> Result<Revision> {
    match number(&answer["header"], "revision")? {
        0 => Err(nonsense("an answer without a revision")),
        revision => Ok(revision),
    }
}

pub(super) fn listing(answer: &Value) -> Result<Listing> {
    let entries = rows(answer, "kvs")?.iter().map(entry);
    Ok(Listing {
        revision: revision(answer)?,
        entries: entries.collect::<Result<_>>()?,
    })
}

pub(super) fn outcome(answer: &Value) -> Result<Outcome> {
    match &answer["succeeded"] {
        Value::Bool(true) => Ok(Outcome::Committed {
            revision: revision(answer)?,
        }),
        // An absent `succeeded` is false, for the same reason.
        Value::Null | Value::Bool(false) => Ok(Outcome::Refused),
        _ => Err(nonsense("succeeded")),
    }
}

pub(super) fn txn(txn: &Txn) -> Value {
    let condition = |condition: &Condition| {
        let key = bytes(condition.key().as_bytes());
        let (target, field, revision) = match condition {
            // A key that does not exist has the creation revision 0 for etcd.
            Condition::Absent(_) => ("CREATE", "create_revision", 0),
            Condition::CreatedAt(_, revision) => ("CREATE", "create_revision", *revision),
            Condition::ModifiedAt(_, revision) => ("MOD", "mod_revision", *revision),
        };
        json!({"key": key, "result": "EQUAL", "target": target, field: revision.to_string()})
    };
    let operation = |operation: &Operation| match operation {
        Operation::Put { key, value, lease } => json!({"request_put": {
            "key": bytes(key.as_bytes()),
            "value": bytes(value),
            "lease": lease.map_or(0, |lease| lease.0).to_string(),
        }}),
        Operation::Delete(key) => {
            json!({"request_delete_range": {"key": bytes(key.as_bytes())}})
        }
    };
    json!({
        "compare": txn.conditions.iter().map(condition).collect::<Vec<_>>(),
        "success": txn.operations.iter().map(operation).collect::<Vec<_>>(),
    })
}

/// One message of a watch.
#[derive(Debug, PartialEq)]
pub(super) enum WatchMessage {
    /// Changes, possibly none.
    Events(Vec<Event>),
    /// The requested history has been compacted.
    Compacted(Revision),
    /// The member ends the watch.
    Ended,
}

pub(super) fn told(message: &Value) -> Result<WatchMessage> {
    let result = &message["result"];
    if !result.is_object() {
        return Err(nonsense("a message of a watch without a result"));
    }
    let compacted = number(result, "compact_revision")?;
    if compacted > 0 {
        return Ok(WatchMessage::Compacted(compacted));
    }
    if result["canceled"] == true {
        return Ok(WatchMessage::Ended);
    }
    let event = |value: &Value| {
        let (key, entry) = entry(&value["kv"])?;
        let is_deletion = match value["type"].as_str() {
            None | Some("PUT") => false,
            Some("DELETE") => true,
            Some(other) => return Err(nonsense(other)),
        };
        Ok(Event {
            key,
            // A deletion has the revision of the deletion here, and no value.
            revision: entry.modified,
            entry: (!is_deletion).then_some(entry),
        })
    };
    let events = rows(result, "events")?.iter().map(event);
    Ok(WatchMessage::Events(events.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefixes_end_before_what_does_not_begin_so() {
        let end = |text| STANDARD.decode(prefix(text).1).unwrap();
        assert_eq!(end("a/"), b"a0");
        assert_eq!(end(""), [0]);
        assert_eq!(prefix("").0, "\0");
    }

    #[test]
    fn a_watch_tells_changes_deletions_and_what_is_forgotten() {
        let message = json!({"result": {"header": {"revision": "9"}, "events": [
            {"kv": {"key": "YQ==", "create_revision": "7", "mod_revision": "8", "version": "2", "value": "Yg==", "lease": "5"}},
            {"type": "DELETE", "kv": {"key": "YQ==", "mod_revision": "9"}},
        ]}});
        let WatchMessage::Events(events) = told(&message).unwrap() else {
            panic!("no events");
        };
        let entry = events[0].entry.clone().unwrap();
        assert_eq!(
            (entry.value, entry.created, entry.modified),
            (b"b".to_vec(), 7, 8)
        );
        assert_eq!(entry.lease, Some(LeaseId(5)));
        assert_eq!((events[1].revision, &events[1].entry), (9, &None));
        let forgotten = json!({"result": {"canceled": true, "compact_revision": "4"}});
        assert_eq!(told(&forgotten).unwrap(), WatchMessage::Compacted(4));
        assert_eq!(
            told(&json!({"result": {"canceled": true}})).unwrap(),
            WatchMessage::Ended
        );
        assert!(told(&json!({"error": "x"})).is_err());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-zA-Z0-9=+/]{0,8}".prop_map(Value::from),
        ];
        let names = prop::sample::select(vec![
            "result",
            "header",
            "revision",
            "events",
            "kv",
            "kvs",
            "key",
            "value",
            "type",
            "lease",
            "mod_revision",
            "canceled",
            "compact_revision",
            "succeeded",
        ]);
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names.clone(), inner, 0..5).prop_map(|map| map
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<Value>()),
            ]
        })
    }

    proptest! {
        /// Each answer of a member is either parsed or refused.
        #[test]
        fn no_answer_panics(value in any_value()) {
            let _ = (listing(&value), outcome(&value), told(&value), revision(&value));
        }
    }
}
