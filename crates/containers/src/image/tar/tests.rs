//! Archives made by hand, whole and broken.

use super::*;
use ::tar::EntryType;

fn header(kind: u8, path: &[u8], size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_entry_type(EntryType::new(kind));
    header.set_mode(0o4755);
    header.set_uid(7);
    header.set_gid(8);
    header.set_mtime(9);
    header.set_size(size);
    header
}

#[derive(Default, Clone)]
struct Archive(Vec<u8>);

impl Archive {
    fn with(mut self, mut header: Header, content: &[u8]) -> Self {
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn add(self, kind: u8, path: &[u8], content: &[u8]) -> Self {
        self.with(header(kind, path, content.len() as u64), content)
    }

    fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut bytes = Vec::new();
        for (key, value) in records {
            // One digit more than the sum of the others has.
            let length = (1..9).map(|digits| key.len() + value.len() + 3 + digits);
            let length = length
                .enumerate()
                .find(|(i, l)| l.to_string().len() == i + 1)
                .unwrap()
                .1;
            bytes.extend_from_slice(format!("{length} {key}=").as_bytes());
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
        }
        self.add(b'x', b"pax", &bytes)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// All entries with their content, holes filled.
fn read(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, Fault> {
    let mut reader = TarReader::new(Stream(bytes), &Limits::default());
    let mut all = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        let mut content = Vec::new();
        reader.content(|offset, part| {
            content.resize(offset as usize, 0);
            content.extend_from_slice(part);
            Ok(())
        })?;
        if let Kind::File { size } = entry.kind {
            content.resize(size as usize, 0);
        }
        all.push((entry, content));
    }
    Ok(all)
}

fn one(archive: Archive) -> Result<(Entry, Vec<u8>), Fault> {
    let mut all = read(&archive.end())?;
    assert_eq!(all.len(), 1);
    Ok(all.remove(0))
}

#[test]
fn what_a_header_says_arrives() {
    let (entry, content) = one(Archive::default().add(b'0', b"a/b", b"text")).unwrap();
    assert_eq!(
        (entry.path.as_slice(), content.as_slice()),
        (&b"a/b"[..], &b"text"[..])
    );
    let meta = &entry.meta;
    assert_eq!(
        (meta.mode, meta.uid, meta.gid, meta.mtime),
        (0o4755, 7, 8, (9, 0))
    );
    let (entry, _) = one(Archive::default().add(0, b"old/", b"")).unwrap();
    assert_eq!(entry.kind, Kind::Folder);
}

#[test]
fn long_names_of_both_kinds_are_whole() {
    let (path, link) = (b"x/".repeat(200), b"y".repeat(300));
    let named = Archive::default().add(b'L', b"@", &[&path[..], b"\0"].concat());
    let both = named
        .clone()
        .add(b'K', b"@", &link)
        .add(b'2', b"short", b"");
    let (entry, _) = one(both).unwrap();
    assert_eq!(entry.path, path);
    assert_eq!(
        entry.kind,
        Kind::Symlink {
            target: link.clone()
        }
    );
    let pax = Archive::default().pax(&[("path", &path), ("linkpath", &link)]);
    let (entry, _) = one(pax.clone().add(b'1', b"short", b"")).unwrap();
    assert_eq!(entry.path, path);
    assert_eq!(entry.kind, Kind::HardLink { target: link });
    // Readers differ in which of two they believe.
    let twice = named.pax(&[("path", b"other")]).add(b'0', b"short", b"");
    assert!(matches!(one(twice), Err(Fault::Damaged(_))));
}

#[test]
fn extended_headers_hold_any_bytes() {
    let capability = b"\x01\0\0\x02\n=\n\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let archive = Archive::default()
        .pax(&[
            ("SCHILY.xattr.security.capability", capability),
            ("uid", b"4000000000"),
            ("mtime", b"-1.25"),
            ("SCHILY.acl.access", b"user::rwx"),
        ])
        .add(b'0', b"ping", b"");
    let bytes = archive.end();
    let mut reader = TarReader::new(Stream(&bytes[..]), &Limits::default());
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!(
        entry.meta.xattrs,
        [("security.capability".to_owned(), capability.to_vec())]
    );
    assert_eq!(
        (entry.meta.uid, entry.meta.mtime),
        (4_000_000_000, (-2, 750_000_000))
    );
    assert!(reader.left_out().contains("SCHILY.acl.access"));
}

#[test]
fn a_size_beyond_eight_gigabytes_and_a_time_before_1970_fit() {
    assert_eq!(
        fields::number(b"\x80\0\0\0\0\0\0\x03\0\0\0\0"),
        Some(3 << 32)
    );
    assert_eq!(
        fields::number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"),
        Some(-2)
    );
    assert_eq!(fields::number(b"\x80\x01\0\0\0\0\0\0\0\0\0\0"), None);
    assert_eq!(fields::number(b"0000644\0"), Some(0o644));
    assert_eq!(fields::number(b"   644 \0"), Some(0o644));
    assert_eq!(fields::number(b"\0\0\0\0\0\0\0\0"), Some(0));
    assert_eq!(fields::number(b"00009\0\0\0"), None);
}

#[test]
fn holes_are_told_in_all_four_ways() {
    // "ab" at 1000 and "c" at 2047 of 3000 bytes.
    let mut expected = vec![0; 3000];
    expected[1000..1002].copy_from_slice(b"ab");
    expected[2047] = b'c';
    let listed = |records: &[(&str, &[u8])]| {
        let mut all = vec![("GNU.sparse.name", &b"real"[..])];
        all.extend_from_slice(records);
        Archive::default()
            .pax(&all)
            .add(b'0', b"GNUSparseFile.1/real", b"abc")
    };
    let v00 = listed(&[
        ("GNU.sparse.size", b"3000"),
        ("GNU.sparse.offset", b"1000"),
        ("GNU.sparse.numbytes", b"2"),
        ("GNU.sparse.offset", b"2047"),
        ("GNU.sparse.numbytes", b"1"),
    ]);
    let v01 = listed(&[
        ("GNU.sparse.size", b"3000"),
        ("GNU.sparse.map", b"1000,2,2047,1"),
    ]);
    let mut content = b"2\n1000\n2\n2047\n1\n".to_vec();
    content.resize(512, 0);
    content.extend_from_slice(b"abc");
    let v10 = Archive::default()
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"real"),
            ("GNU.sparse.realsize", b"3000"),
        ])
        .add(b'0', b"GNUSparseFile.1/real", &content);
    let mut old = header(b'S', b"real", 3);
    {
        let gnu = old.as_gnu_mut().unwrap();
        gnu.set_real_size(3000);
        gnu.sparse[0].set_offset(1000);
        gnu.sparse[0].set_length(2);
        gnu.sparse[1].set_offset(2047);
        gnu.sparse[1].set_length(1);
    }
    let old = Archive::default().with(old, b"abc");
    for (name, archive) in [("0.0", v00), ("0.1", v01), ("1.0", v10), ("old", old)] {
        let all = read(&archive.add(b'0', b"after", b"after").end()).unwrap();
        assert_eq!(all[0].0.path, b"real", "{name}");
        assert_eq!(all[0].1, expected, "{name}");
        assert_eq!(all[1].1, b"after", "{name}");
    }
}

#[test]
fn maps_of_holes_that_lie_are_refused() {
    for map in [
        "1000,2",
        "0,4",
        "5,2,4,1",
        "0,3,18446744073709551615,1",
        "a,b",
        "1",
        "2999,3",
    ] {
        let records = [
            ("GNU.sparse.size", &b"3000"[..]),
            ("GNU.sparse.map", map.as_bytes()),
        ];
        let archive = Archive::default().pax(&records).add(b'0', b"f", b"abc");
        let error = one(archive).unwrap_err();
        assert!(error.to_string().contains("map of holes"), "{map}: {error}");
    }
}

#[test]
fn what_is_broken_says_so() {
    let good = Archive::default().add(b'0', b"a", &[1; 700]).end();
    for cut in [100, 511, 600, 1000] {
        assert!(
            matches!(read(&good[..cut]), Err(Fault::Damaged(_))),
            "cut at {cut}"
        );
    }
    // Without its last blocks, as some programs write it.
    assert_eq!(read(&good[..1536]).unwrap().len(), 1);
    let mut flipped = good.clone();
    flipped[0] ^= 1;
    assert!(
        read(&flipped)
            .unwrap_err()
            .to_string()
            .contains("check sum")
    );
    let mut more = good.clone();
    more.truncate(2048);
    more.extend_from_slice(&[7; 512]);
    assert!(
        read(&more)
            .unwrap_err()
            .to_string()
            .contains("follows its end")
    );
    let alone = Archive::default().pax(&[("path", b"x")]).end();
    assert!(
        read(&alone)
            .unwrap_err()
            .to_string()
            .contains("describes no entry")
    );
    let global = Archive::default()
        .add(b'g', b"pax", b"10 path=x\n")
        .add(b'0', b"a", b"");
    assert!(
        one(global)
            .unwrap_err()
            .to_string()
            .contains("global header sets 'path'")
    );
    for records in [
        &b"99 path=x\n"[..],
        b"9 path=x",
        b"path=x\n",
        b"0 x=y\n",
        b"6 xy\n\n",
        b"99999999999999999999 x=y\n",
    ] {
        let archive = Archive::default()
            .add(b'x', b"pax", records)
            .add(b'0', b"a", b"");
        assert!(
            matches!(one(archive), Err(Fault::Damaged(_))),
            "{records:?}"
        );
    }
}

#[test]
fn entries_that_readers_disagree_about_are_refused() {
    let with_content = Archive::default().add(b'2', b"link", b"content");
    assert!(matches!(
        one(with_content),
        Err(Fault::Entry {
            why: EntryFault::OutOfRange("size"),
            ..
        })
    ));
    let unknown = Archive::default().add(b'V', b"volume", b"");
    assert!(matches!(
        one(unknown),
        Err(Fault::Entry {
            why: EntryFault::UnknownType(b'V'),
            ..
        })
    ));
    let nobody = Archive::default()
        .pax(&[("uid", b"4294967295")])
        .add(b'0', b"a", b"");
    assert!(matches!(
        one(nobody),
        Err(Fault::Entry {
            why: EntryFault::OutOfRange("owner"),
            ..
        })
    ));
    let mark = Archive::default()
        .pax(&[("SCHILY.xattr.trusted.overlay.redirect", b"/etc")])
        .add(b'5', b"a", b"");
    assert!(matches!(
        one(mark),
        Err(Fault::Entry {
            why: EntryFault::OverlayMark(_),
            ..
        })
    ));
}

#[test]
fn bounds_hold_before_memory_is_taken() {
    let mut huge = Archive::default().add(b'L', b"@", b"").0;
    let mut lies = header(b'L', b"@", 1 << 40);
    lies.set_cksum();
    huge[..512].copy_from_slice(lies.as_bytes());
    assert!(matches!(
        read(&huge),
        Err(Fault::Limit {
            limit: "header_bytes",
            ..
        })
    ));
    let many = (0..10).fold(Archive::default(), |archive, _| {
        archive.add(b'0', b"a", b"")
    });
    let limits = Limits {
        entries: 9,
        ..Limits::default()
    };
    let bytes = many.end();
    let mut reader = TarReader::new(Stream(&bytes[..]), &limits);
    let last = std::iter::from_fn(|| reader.next_entry().transpose()).last();
    assert!(matches!(
        last,
        Some(Err(Fault::Limit {
            limit: "entries",
            ..
        }))
    ));
}

#[test]
fn a_tape_that_can_be_jumped_in_gives_the_same() {
    let bytes = Archive::default()
        .add(b'0', b"a", &[1; 700])
        .add(b'0', b"b", b"b")
        .end();
    let mut reader = TarReader::new(Seekable(io::Cursor::new(&bytes)), &Limits::default());
    assert_eq!(reader.next_entry().unwrap().unwrap().path, b"a");
    assert_eq!(reader.content_at(), Some((512, 700)));
    assert_eq!(reader.next_entry().unwrap().unwrap().path, b"b");
    assert_eq!(reader.content_at(), Some((512 + 1024 + 512, 1)));
    assert!(reader.next_entry().unwrap().is_none());
}
