//! A byte that is no UTF-8, as of a name in Latin-1, spoils its own record at most.

use constel_orbit::{ElementFile, omm, tle};

const NUMBERS: [u64; 3] = [25_544, 25_545, 25_546];

fn with_sum(line: &str) -> String {
    let value = |byte: u8| match byte {
        b'0'..=b'9' => u32::from(byte - b'0'),
        b'-' => 1,
        _ => 0,
    };
    let sum: u32 = line.bytes().map(value).sum();
    format!("{line}{}", sum % 10)
}

fn two_lines(number: u64) -> String {
    let lines = [
        format!("1 {number}U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  292"),
        format!("2 {number}  51.6416 247.4627 0006703 130.5360 325.0288 15.7212539156353"),
    ];
    format!(
        "BIRD {number}\n{}\n{}\n",
        with_sum(&lines[0]),
        with_sum(&lines[1])
    )
}

fn csv(number: u64) -> String {
    format!(
        "BIRD {number},2008-09-20T12:25:40.104192,15.72125391,.0006703,51.6416,247.4627,130.536,325.0288,{number},0\n"
    )
}

fn kvn(number: u64) -> String {
    format!(
        "CCSDS_OMM_VERS = 2.0\nOBJECT_NAME = BIRD {number}\nEPOCH = 2008-09-20T12:25:40\nMEAN_MOTION = 15.7\n\
         ECCENTRICITY = .0006703\nINCLINATION = 51.6416\nRA_OF_ASC_NODE = 247.4627\nARG_OF_PERICENTER = 130.536\n\
         MEAN_ANOMALY = 325.0288\nNORAD_CAT_ID = {number}\nBSTAR = 0\n"
    )
}

fn json(number: u64) -> String {
    let quoted = |line: &str| {
        let (key, value) = line.split_once(" = ")?;
        Some(format!("\"{key}\": \"{value}\""))
    };
    let keys: Vec<String> = kvn(number).lines().filter_map(quoted).collect();
    format!("{{{}}}", keys.join(","))
}

/// Reads a file of three records after `head`, with each byte of the second one replaced in turn.
fn check(
    format: &str,
    [head, between, tail]: [&str; 3],
    record: fn(u64) -> String,
    read: fn(&[u8]) -> ElementFile,
    is_in_record: fn(&[u8], usize) -> bool,
) {
    let [first, second, third] = NUMBERS.map(record);
    let whole = format!("{head}{first}{between}{second}{between}{third}{tail}");
    let numbers = |file: &ElementFile| -> Vec<u64> {
        let sets = file.sets.iter();
        sets.filter_map(|set| set.catalogue_number()).collect()
    };
    assert_eq!(numbers(&read(whole.as_bytes())), NUMBERS, "{format}");
    let begin = head.len() + first.len() + between.len();
    let (mut kept, mut lost) = (0, 0);
    // The line end after the record separates it from the next.
    for at in begin..begin + second.len() - 1 {
        let mut bytes = whole.clone().into_bytes();
        if !is_in_record(&bytes, at) {
            continue;
        }
        bytes[at] = 0xe9;
        let file = read(&bytes);
        let found = numbers(&file);
        let ends = found.contains(&NUMBERS[0]) && found.contains(&NUMBERS[2]);
        assert!(ends, "{format}, byte {}: {:?}", at - begin, file.errors);
        match file.sets.len() {
            3 => kept += 1,
            _ => lost += 1,
        }
        assert!(
            file.sets.len() == 3 || !file.errors.is_empty(),
            "{format}, byte {}",
            at - begin
        );
    }
    // A name is kept, with U+FFFD; other values are needed.
    assert!(kept > 3 && lost > 3, "{format}: {kept} kept, {lost} lost");
}

#[test]
fn an_invalid_byte_spoils_its_own_record_only() {
    let any = |_: &[u8], _: usize| true;
    let header = "OBJECT_NAME,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,MEAN_ANOMALY,\
                  NORAD_CAT_ID,BSTAR\n";
    check(
        "TLE",
        ["", "", ""],
        two_lines,
        |bytes| tle::read(bytes),
        any,
    );
    check("CSV", [header, "", ""], csv, |bytes| omm::read(bytes), any);
    check("KVN", ["", "", ""], kvn, |bytes| omm::read(bytes), any);
    // Braces, quotes and commas hold all records of a JSON text together.
    let in_value = |bytes: &[u8], at: usize| !b"{}[]\",: ".contains(&bytes[at]);
    check(
        "JSON",
        ["[", ",", "]"],
        json,
        |bytes| omm::read(bytes),
        in_value,
    );
}

#[test]
fn a_name_in_latin_1_flies() {
    let mut file = Vec::from(*b"CAF\xc9 1\n");
    file.extend(
        two_lines(25_544)
            .split_once('\n')
            .unwrap_or_default()
            .1
            .bytes(),
    );
    let read = tle::read(&file);
    assert_eq!(read.sets[0].name(), Some("CAF\u{fffd} 1"));
    assert_eq!(read.errors, []);
    // What is no text at all has one error.
    let packed = [b"\x1f\x8b\x08\0\0\0".to_vec(), file.repeat(50)].concat();
    for read in [tle::read(&packed), omm::read(&packed)] {
        assert_eq!(
            (read.sets.len(), read.errors.len()),
            (0, 1),
            "{:?}",
            read.errors
        );
    }
}
