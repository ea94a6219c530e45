//! Documents in a store that the agents of machines share, and the store itself.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use constel_cluster::agent::Record;
use constel_cluster::agent::labs::speech::{FromWorker, ToWorker};
use constel_cluster::agent::labs::{
    ChangeEntry, Command, End, LabDescription, LabStart, Loss, Message, NodesReturned, Size,
    Takeover, UnderlaySettings, WorkerRecord, write_below,
};
use constel_cluster::store::{Folder, Store, Txn};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Target, in_memory, names};

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("agent-documents", documents, read_documents),
        Target::new("machine-message", messages, read_message),
        Target::new("store-folder", stores, store),
    ]
}

/// Checks that an accepted document is the same after writing and reading, and that its files stay in their folder.
fn read_documents(bytes: &[u8]) -> bool {
    let order = same::<LabDescription>(bytes);
    let paths = order.iter().flat_map(|order| &order.files).take(20);
    for file in paths {
        let place = in_memory();
        let folder = place.path().join("own");
        std::fs::create_dir(&folder).expect("room in memory");
        let written = write_below(&folder, &file.path, b"1");
        assert_eq!(names(place.path()), ["own"]);
        let there = std::fs::read(folder.join(&file.path));
        assert!(written.is_err() || there.ok().as_deref() == Some(b"1"));
    }
    let others = [
        same::<WorkerRecord>(bytes).is_some(),
        same::<UnderlaySettings>(bytes).is_some(),
        same::<LabStart>(bytes).is_some(),
        same::<Loss>(bytes).is_some(),
        same::<Takeover>(bytes).is_some(),
        same::<NodesReturned>(bytes).is_some(),
        same::<End>(bytes).is_some(),
        // Those with numbers of any kind may lose the last digit when they are written again.
        serde_json::from_slice::<ChangeEntry>(bytes).is_ok(),
        serde_json::from_slice::<ToWorker>(bytes).is_ok(),
        serde_json::from_slice::<FromWorker>(bytes).is_ok(),
        serde_json::from_slice::<Record>(bytes).is_ok(),
    ];
    order.is_some() || others.contains(&true)
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let read = serde_json::from_slice::<T>(bytes).ok()?;
    let text = serde_json::to_vec(&read).expect("JSON of JSON");
    assert_eq!(
        serde_json::from_slice::<T>(&text).ok().as_ref(),
        Some(&read)
    );
    Some(read)
}

/// Checks that an accepted message of a connection between machines is the same after packing and unpacking.
fn read_message(bytes: &[u8]) -> bool {
    let Ok(message) = Message::unpack(bytes) else {
        return false;
    };
    // A message that was read may be longer than one that may be sent.
    if let Ok(packed) = message.pack() {
        assert_eq!(Message::unpack(&packed).ok(), Some(message));
    }
    true
}

fn messages() -> Vec<Vec<u8>> {
    let command = Command {
        lab: "l".to_owned(),
        verb: vec!["exec".to_owned()],
        args: vec!["tokyo".to_owned(), "--".to_owned(), "true".to_owned()],
    };
    let size = Size {
        columns: 80,
        rows: 24,
    };
    let all = [
        Message::Command(command),
        Message::Input(b"in".to_vec()),
        Message::InputEnd,
        Message::Size(size),
        Message::Output(b"out".to_vec()),
        Message::Errors(Vec::new()),
        Message::Exit(-1),
        Message::NoPart,
    ];
    all.map(|message| message.pack().expect("a short message"))
        .into()
}

/// Uses a store whose file has these bytes: a key that is put is there, with a revision that grows, and a watch sees it.
fn store(bytes: &[u8]) -> bool {
    let place = in_memory();
    std::fs::write(place.path().join("store.json"), bytes).expect("room in memory");
    let Ok(store) = Folder::find(place.path()) else {
        return false;
    };
    use_store(&store, place.path()).expect("a store that was opened can be used");
    true
}

fn use_store(store: &Folder, folder: &Path) -> constel_cluster::store::Result<()> {
    let before = store.list("")?;
    let mut watch = store.watch("fuzz/", before.revision + 1)?;
    let lease = store.grant(Duration::from_secs(60))?;
    store.keep_alive(lease.id)?;
    store.commit(&Txn::new().put_leased("fuzz/key", b"value", lease.id))?;
    let entry = store.get("fuzz/key")?.expect("a key that was put");
    assert!(entry.value == b"value" && entry.modified > before.revision);
    assert_eq!(watch.next(Duration::ZERO)?.len(), 1);
    store.revoke(lease.id)?;
    store.compact(entry.modified)?;
    assert_eq!(store.get("fuzz/key")?, None);
    assert_eq!(names(folder), ["lock", "store.json"]);
    Ok(())
}

fn documents() -> Vec<Vec<u8>> {
    let order = r#"{"version": "0.1.0", "lab": "l", "by": ["h", 7], "machines": [{"name": "a", "weight": 1, "capacity": null}, {"name": "b", "weight": 2, "capacity": 10}], "place": "planes", "pins": ["tokyo=a"], "duration_ns": 5, "traffic": true, "goes_on": false, "moves": false, "between": "udp", "encrypted": true, "files": [{"path": "x.yaml", "bytes": 10}, {"path": "d/y.csv", "bytes": 20}]}"#;
    [
        order,
        r#"{"go": 12345}"#,
        r#"{"beat": {"ahead_ns": -5, "clock_jumps": 0, "until_ns": 99}}"#,
        r#"{"lost": {"machine": 1, "from_ns": 10}}"#,
        r#"{"change": {"by": 0, "number": 1, "at_ns": 7, "what": {"verb": "set-link"}}}"#,
        r#"{"standing": {"nodes": 4, "plan": "ab", "images": {"x": "sha256:0a"}}}"#,
        r#"{"takers": {"machine": 1, "takers": [0, 2]}}"#,
        r#"{"took": {"machine": 1, "failure": null}}"#,
        r#"{"say": "words"}"#,
        r#"{"ended": {"failure": "why"}}"#,
        r#""end""#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Files of a store with keys, a lease and a history, made by the store.
fn stores() -> Vec<Vec<u8>> {
    let made = |many: u32| -> constel_cluster::store::Result<Vec<u8>> {
        let place = in_memory();
        let store = Folder::open(place.path())?;
        let lease = store.grant(Duration::from_secs(3_600))?;
        for number in 0..many {
            let key = format!("constel/{}", number % 3);
            store.commit(&Txn::new().put_leased(key, number.to_string(), lease.id))?;
        }
        store.put("constel/fixed", b"x")?;
        Ok(std::fs::read(place.path().join("store.json")).expect("a store has its file"))
    };
    [0, 1, 7]
        .map(|many| made(many).expect("a store in memory"))
        .into()
}
