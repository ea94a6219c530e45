//! Folders and archives of others: results, copies out of nodes, LEOTP's cache on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use constel_control::Error;
use constel_control::copy::unpack_here;
use constel_control::expect::{Evidence, reads_columns};
use constel_control::results::{self, Format, Run};
use constel_measure::plot::Look;
use leotp::core::{BLOCK_BYTES, BlockKey, BlockStore};
use leotp::rt::{DiskCache, SLOT_BYTES};
use tar::EntryType as Kind;

use super::images::entry;
use super::{Target, file, in_memory, names, texts};

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("cp-archive", copies, copied),
        Target::new("results-folder", all_results, |bytes| {
            read_results(bytes).is_ok()
        }),
        Target::new("program-output", outputs, |bytes| {
            texts(bytes).is_some_and(|[name, text]| reads_columns(text.as_bytes(), name))
        }),
        Target::new("leotp-disk", caches, cached),
    ]
}

/// Checks that an archive of `logs` makes nothing but `logs` in its folder, and no program with another user's rights.
fn copied(bytes: &[u8]) -> bool {
    let place = in_memory();
    let at = |name: &str| place.path().join(name);
    fs::write(at("canary"), b"alive").expect("room in memory");
    fs::create_dir(at("to")).expect("room in memory");
    let copied = unpack_here(bytes, Path::new("/var/logs"), &at("to"));
    assert_eq!(fs::read(at("canary")).ok().as_deref(), Some(&b"alive"[..]));
    assert_eq!(names(place.path()), ["canary", "to"]);
    assert!(names(&at("to")).iter().all(|name| name == "logs"));
    no_rights(&at("to"), 0);
    // Under another name the archive is unpacked aside first.
    let renamed = unpack_here(bytes, Path::new("/var/logs"), &at("kept"));
    assert!(
        names(place.path())
            .iter()
            .all(|name| name == "canary" || name == "to" || name == "kept")
    );
    assert!(renamed.is_err() || at("kept").symlink_metadata().is_ok());
    copied.is_ok()
}

/// Checks all files of a folder; the paths of archives are at most 256 KiB long together.
fn no_rights(folder: &Path, depth: u32) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.path().symlink_metadata() else {
            continue;
        };
        if found.is_file() {
            assert_eq!(found.permissions().mode() & 0o6000, 0, "{entry:?}");
        }
        if found.is_dir() && depth < 100 {
            no_rights(&entry.path(), depth + 1);
        }
    }
}

/// The files of a results folder, in the order in which an input has them.
const FILES: [&str; 7] = [
    "manifest.json",
    "summary.json",
    "events.ndjson",
    "flows/f.csv",
    "paths.csv",
    "interfaces/index.csv",
    // All columns of interfaces, edges and used resources have the same bytes.
    "interfaces/t_ns.i64",
];

/// Reads a folder of results in all ways.
fn read_results(bytes: &[u8]) -> Result<(), Error> {
    let place = in_memory();
    let own = place.path().join("run");
    for folder in ["flows", "interfaces", "edges", "usage"] {
        fs::create_dir_all(own.join(folder)).expect("room in memory");
    }
    let mut parts = bytes.splitn(FILES.len(), |byte| *byte == 0);
    for name in FILES {
        let part = parts.next().unwrap_or_default();
        fs::write(own.join(name), part).expect("room in memory");
        if name == "interfaces/index.csv" {
            fs::write(own.join("edges/index.csv"), part).expect("room in memory");
            fs::write(own.join("usage/index.csv"), part).expect("room in memory");
        }
        if name.ends_with(".i64") {
            for column in [
                "interfaces/rx_bytes.u64",
                "interfaces/tx_bytes.u64",
                "edges/t_ns.i64",
                "edges/from.u64",
                "edges/to.u64",
                "usage/t_ns.i64",
                "usage/cpu_ns.u64",
                "usage/memory_bytes.u64",
            ] {
                fs::write(own.join(column), part).expect("room in memory");
            }
        }
    }
    let run = Run::open(&own).expect("a folder with a manifest");
    drop((run.check(), run.manifest(), results::list(place.path())));
    let summary = run.summary();
    if let Ok(summary) = &summary {
        let rows = results::flow_rows("run", summary);
        assert!(rows.iter().all(|row| row.len() == results::COLUMNS.len()));
    }
    let pictures = [
        run.picture("f", None),
        run.ports_picture(),
        run.usage_picture(),
    ];
    for picture in pictures.into_iter().flatten() {
        let picture = picture.svg(&Look::default());
        assert!(picture.starts_with("<svg"));
        assert!(!picture.chars().any(|c| c.is_control() && c != '\n'));
    }
    for table in results::tables(&run) {
        for format in [Format::Csv, Format::Influx, Format::Parquet] {
            let to = place.path().join("table");
            if let Ok(written) = results::export(&run, &table, &to, format) {
                assert_eq!(
                    written.bytes,
                    fs::metadata(&to).map_or(0, |file| file.len())
                );
            }
        }
    }
    let events = run.events()?.collect::<Result<Vec<_>, _>>()?;
    assert_eq!(Evidence::read(&run)?.events, events);
    results::compare(&own, &own)?;
    run.head()?;
    run.picture("f", None).map(drop)
}

const CACHE_SLOTS: u64 = 40;

/// The content of a block of a seed.
fn block(key: BlockKey) -> Vec<u8> {
    (0..BLOCK_BYTES)
        .map(|at| (at as u64 * 7 + key.0 * 31 + key.1) as u8)
        .collect()
}

/// Opens a cache whose file has these bytes. Checks that a block comes back as some node put it, that the file has its bound,
/// and that the cache can be used.
fn cached(bytes: &[u8]) -> bool {
    let place = in_memory();
    let at = place.path().join("blocks");
    fs::write(&at, bytes).expect("room in memory");
    let most = CACHE_SLOTS * SLOT_BYTES;
    let mut cache = DiskCache::open(place.path(), most).expect("a folder of its own");
    let keys = (0..4).flat_map(|flow| (0..4).map(move |number| (flow, number)));
    let mut found = false;
    for key in keys {
        let piece = cache.piece(key);
        if let Some(stored) = cache.get(key) {
            assert!(stored.bytes[..] == block(key)[..], "no node put this");
            assert_eq!(piece, Some(stored.piece));
            found = true;
        } else {
            assert_eq!(cache.piece(key), None, "given up");
        }
    }
    let key = (9, 9);
    for _ in 0..2 {
        assert!(cache.put(key, (0, 100), &block(key)));
        let stored = cache.get(key).expect("a block that was put");
        assert!(stored.piece == (0, 100) && stored.bytes[..] == block(key)[..]);
    }
    assert!(fs::metadata(&at).is_ok_and(|file| file.len() <= most));
    found
}

fn copies() -> Vec<Vec<u8>> {
    let plain = [
        entry("logs/", Kind::Directory, "", b""),
        entry("logs/a", Kind::Regular, "", &[7; 700]),
        entry("logs/link", Kind::Symlink, "../../canary", b""),
        entry("logs/b/c", Kind::Regular, "", b"deep"),
        vec![0; 1024],
    ];
    let hostile = [
        entry("logs/", Kind::Directory, "", b""),
        entry("logs/out", Kind::Symlink, "../..", b""),
        entry("logs/out/canary", Kind::Regular, "", b"dead"),
        vec![0; 1024],
    ];
    let long = [
        entry(
            "x",
            Kind::GNULongName,
            "",
            format!("logs/{}\0", "n".repeat(150)).as_bytes(),
        ),
        entry("logs/n", Kind::Regular, "", b"1"),
        entry("x", Kind::XHeader, "", b"23 SCHILY.xattr.user=1\n"),
        entry("logs/x", Kind::Regular, "", b"1"),
        vec![0; 1024],
    ];
    let mut all = vec![plain.concat(), hostile.concat(), long.concat()];
    all.push(with_holes());
    all
}

/// An archive of a file with holes.
fn with_holes() -> Vec<u8> {
    let place = in_memory();
    let at = place.path().join("logs");
    let sparse = fs::File::create(&at).expect("room in memory");
    sparse.set_len(1 << 20).expect("a hole");
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"content", 1 << 19).expect("room");
    let mut archive = Vec::new();
    constel_control::copy::pack_here(&at, Path::new("logs"), &mut archive).expect("a file of ours");
    archive
}

fn all_results() -> Vec<Vec<u8>> {
    let manifest = file("web/tests/data/manifest.json");
    let events = b"{\"seq\":1,\"t_ns\":0,\"wall\":\"w\",\"kind\":\"clock-started\"}\n{\"seq\":3,\"t_ns\":5,\"wall\":\"2026-11-22T00:00:00.000000Z\",\"kind\":\"handover\",\"station\":\"tokyo\",\"from\":null,\"to\":\"sat-1\"}\n";
    let flow = b"t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,marked\n0.5,100.5,50,50.5,,ok,0\n1,,,,,lost,0\n1.5,200,,,8000000,ok,1\n";
    let paths = b"t_s,flow,path,path_rtt_us,shortest_rtt_us\n0,f,1,90,90\n1,f,2,95,90\n2,f,,,\n";
    let index = b"place,node,port\n0,tokyo,eth0\n1,paris,lo\n2,paris,eth0\n";
    let numbers: Vec<u8> = (0..30_u64)
        .flat_map(|n| (n * 1_000_000_000).to_le_bytes())
        .collect();
    let summaries = [
        "web/tests/data/summary.json",
        "crates/control/src/expect/run.json",
    ];
    let rest = [&events[..], flow, paths, index, &numbers].join(&0);
    summaries
        .iter()
        .flat_map(|path| file(path))
        .flat_map(|summary| {
            let rest = &rest;
            manifest
                .iter()
                .map(move |manifest| [&manifest[..], &summary[..], &rest[..]].join(&0))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn outputs() -> Vec<Vec<u8>> {
    vec![b"plan\0cycle,craft,plan\r\n1,0,ab\n2,0,cd\ncycle,craft,plan\n3,0,ef\n4,0".to_vec()]
}

fn caches() -> Vec<Vec<u8>> {
    let made = |many: u64, places: u64| {
        let place = in_memory();
        let mut cache = DiskCache::open(place.path(), places * SLOT_BYTES).expect("a folder");
        for number in 0..many {
            let key = (number % 4, number / 4);
            cache.put(key, (0, BLOCK_BYTES as u16), &block(key));
        }
        drop(cache);
        fs::read(place.path().join("blocks")).expect("a cache has its file")
    };
    vec![made(3, 40), made(16, 40), made(16, 5)]
}
