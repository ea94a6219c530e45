//! Files that users receive from others: scenarios, elements, ephemerides, recordings, other tools' networks.

use constel_exchange::draft::{Shell, Station};
use constel_exchange::{
    celestial, compose, csv, hypatia, nistnet, oem, opensn, pcapng, sp3, starperf, starrynet, stk,
};
use constel_link::{Effects, packet, trace};
use constel_orbit::{ElementSet, Satellite, omm, tle};
use constel_scenario::{Diagnostics, Files, TextFile, read_box, read_rules, read_scenario};

use super::{Target, file, files_of, texts};

pub(super) fn targets() -> Vec<Target> {
    let mut all = own();
    all.extend(orbits());
    all.extend(imports());
    all
}

/// Elements and ephemerides.
fn orbits() -> Vec<Target> {
    vec![
        Target::new("tle", tles, |bytes| match tle::parse(bytes) {
            Ok(sets) => flown(&sets),
            Err(errors) => {
                assert!(!errors.0.is_empty() && errors.0.is_sorted_by_key(|error| error.line));
                drop(errors.to_string());
                false
            }
        }),
        Target::new("omm", omms, |bytes| match omm::parse(bytes) {
            Ok(sets) => flown(&sets),
            Err(errors) => {
                assert!(!errors.0.is_empty());
                drop(errors.to_string());
                false
            }
        }),
        Target::new("ephemeris-csv", ephemerides_csv, |bytes| {
            texts(bytes).is_some_and(|[text]| objects(csv::parse(text)))
        }),
        Target::new("ephemeris-oem", ephemerides_oem, |bytes| {
            texts(bytes).is_some_and(|[text]| objects(oem::parse(text)))
        }),
        Target::new("ephemeris-sp3", ephemerides_sp3, |bytes| {
            texts(bytes).is_some_and(|[text]| objects(sp3::parse(text)))
        }),
        Target::new("ephemeris-stk", ephemerides_stk, |bytes| {
            texts(bytes).is_some_and(|[text]| objects(stk::parse(text, "one")))
        }),
    ]
}

/// Files of our own formats, and recordings.
fn own() -> Vec<Target> {
    vec![
        Target::new("scenario", scenarios, |bytes| {
            judged(read_scenario("f.yaml", bytes, &Same(bytes)).map(drop))
        }),
        Target::new("box", boxes, |bytes| {
            judged(read_box("f.yaml", bytes, &Same(bytes)).map(drop))
        }),
        Target::new("rules", rules, |bytes| {
            judged(read_rules("f.yaml", bytes, &Same(bytes)).map(drop))
        }),
        Target::new("delays", delays, |bytes| {
            let Some([text]) = texts(bytes) else {
                return false;
            };
            let members: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
            judged(constel_plan::read_delays(&TextFile::alone("f.csv", text), &members).map(drop))
        }),
        Target::new("recordings", recordings, recorded),
        Target::new("pcapng", captures, |bytes| {
            let mut from = bytes;
            let mut blocks = 0;
            while let Ok(Some(block)) = pcapng::Block::read(&mut from) {
                blocks += 1;
                drop((block.is_packet(), block.interface(), block.lost()));
            }
            blocks > 0
        }),
    ]
}

/// Networks of other tools.
fn imports() -> Vec<Target> {
    vec![
        Target::new(
            "import-celestial",
            || file("crates/exchange/tests/data/celestial.toml"),
            |bytes| {
                texts(bytes).is_some_and(|[text]| {
                    celestial::parse(text, "x").is_ok_and(|draft| !draft.yaml().is_empty())
                })
            },
        ),
        Target::new("import-compose", compose_files, |bytes| {
            texts(bytes).is_some_and(|[text, beside]| {
                let read = compose::parse(text, "x", &|_| Ok(Some(beside.to_owned())));
                read.is_ok_and(|draft| !draft.yaml().is_empty())
            })
        }),
        Target::new("import-hypatia", hypatia_files, |bytes| {
            texts(bytes).is_some_and(|[tles, isls, stations]| {
                let files = hypatia::Files {
                    tles,
                    tles_path: "tles.txt",
                    isls: Some(isls),
                    stations: Some(stations),
                    gsl_interfaces: None,
                    description: None,
                };
                hypatia::parse(&files, "x").is_ok_and(|draft| !draft.yaml().is_empty())
            })
        }),
        Target::new(
            "import-opensn",
            || file("crates/exchange/tests/data/opensn.json"),
            |bytes| {
                texts(bytes).is_some_and(|[text]| {
                    opensn::parse(text, "x").is_ok_and(|draft| !draft.yaml().is_empty())
                })
            },
        ),
        Target::new(
            "import-starperf",
            || file("crates/exchange/tests/data/starperf.xml"),
            |bytes| {
                texts(bytes).is_some_and(|[text]| {
                    let read = starperf::parse_constellation(text, "x");
                    drop(starperf::parse_stations(text));
                    read.is_ok_and(|draft| !draft.yaml().is_empty())
                })
            },
        ),
        Target::new(
            "import-starrynet",
            || files_of("crates/exchange/tests/data", "net.json"),
            |bytes| {
                texts(bytes).is_some_and(|[text]| {
                    starrynet::parse(text).is_ok_and(|draft| !draft.yaml().is_empty())
                })
            },
        ),
        Target::new("import-nistnet", nistnet_rows, |bytes| {
            texts(bytes).is_some_and(|[text]| {
                nistnet::parse(text).is_ok_and(|rows| !nistnet::yaml(&rows.file).is_empty())
            })
        }),
    ]
}

/// All files that a scenario names have the same bytes, so that their readers are reached as well.
struct Same<'a>(&'a [u8]);

impl Files for Same<'_> {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "p.csv" => Ok(b"name,latitude_deg,longitude_deg\nParis,48.8,2.3\n".to_vec()),
            _ => Ok(self.0.to_vec()),
        }
    }
}

/// Checks that errors are bounded, and that no part of them is a command to a terminal.
fn judged(read: Result<(), Diagnostics>) -> bool {
    match read {
        Ok(()) => true,
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= 200);
            let text = errors.to_string();
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
            false
        }
    }
}

fn flown(sets: &[ElementSet]) -> bool {
    assert!(!sets.is_empty());
    for set in sets {
        if let Ok(satellite) = Satellite::from_elements(set)
            && let Ok(state) = satellite.teme(set.epoch())
        {
            assert!(state.position_teme_m.is_finite());
        }
    }
    true
}

fn objects(
    read: Result<Vec<constel_exchange::ephemeris::Ephemeris>, constel_exchange::ReadErrors>,
) -> bool {
    match read {
        Ok(objects) => {
            assert!(!objects.is_empty());
            for object in &objects {
                let (from, to) = object.span();
                let _ = (object.position_itrf_m(from), object.position_itrf_m(to));
            }
            true
        }
        Err(errors) => {
            assert!(!errors.0.is_empty() && errors.0.is_sorted_by_key(|e| e.line));
            false
        }
    }
}

/// Checks that laws are valid, or that errors name existing lines; marking a frame must not change its flow.
fn recorded(bytes: &[u8]) -> bool {
    let mut frame = bytes.to_vec();
    let flow = packet::traits(&frame).flow;
    packet::mark_ce(&mut frame);
    assert_eq!(packet::traits(&frame).flow, flow);
    let Some([text]) = texts(bytes) else {
        return false;
    };
    let lines = text.lines().count() as u32 + 1;
    let mut accepted = false;
    for read in [
        trace::mahimahi(text),
        trace::rate_csv(text, true),
        trace::rate_csv(text, false),
    ] {
        match read {
            Ok(law) => {
                accepted = true;
                let effects = Effects {
                    rate_law: Some(law),
                    ..Effects::default()
                };
                let _ = effects.check();
            }
            Err(errors) => assert!(errors.iter().all(|e| (1..=lines).contains(&e.line))),
        }
    }
    let _ = (trace::delays_ms(text), trace::losses(text));
    accepted
}

fn scenarios() -> Vec<Vec<u8>> {
    let shipped = ["scenarios", "scenarios/tests"].map(|folder| files_of(folder, ".yaml"));
    let wrong = files_of("crates/scenario/tests/errors", ".yaml");
    shipped.into_iter().flatten().chain(wrong).collect()
}

fn boxes() -> Vec<Vec<u8>> {
    let mut all = files_of("scenarios", "box.yaml");
    all.extend(files_of("crates/scenario/tests/boxes", ".yaml"));
    all
}

fn rules() -> Vec<Vec<u8>> {
    let mut all = vec![
        b"seed: 1\nrules:\n- {match: {from: 10.0.0.0/8, protocol: udp, to_port: 53}, delay: 20 ms, loss: 5 %}\n- {delay: 1 ms}\n".to_vec(),
        b"rules: []\n".to_vec(),
    ];
    all.extend(files_of("crates/scenario/tests/rules", ".yaml"));
    all
}

fn tles() -> Vec<Vec<u8>> {
    let one = "ISS (ZARYA)\n\
        1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927\n\
        2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537\n";
    vec![
        one.as_bytes().to_vec(),
        one.repeat(3).replace('\n', "\r\n").into_bytes(),
    ]
}

/// Seeds in JSON, CSV, XML and KVN; the reader detects the format.
fn omms() -> Vec<Vec<u8>> {
    let mut all = vec![
        br#"[{"OBJECT_NAME":"ISS (ZARYA)","OBJECT_ID":"1998-067A","EPOCH":"2026-11-21T11:25:29.126688","MEAN_MOTION":15.49,"ECCENTRICITY":0.0006703,"INCLINATION":51.64,"RA_OF_ASC_NODE":247.46,"ARG_OF_PERICENTER":130.53,"MEAN_ANOMALY":325.02,"EPHEMERIS_TYPE":0,"CLASSIFICATION_TYPE":"U","NORAD_CAT_ID":25544,"ELEMENT_SET_NO":999,"REV_AT_EPOCH":56353,"BSTAR":-0.000011606,"MEAN_MOTION_DOT":-0.00002182,"MEAN_MOTION_DDOT":0}]"#.to_vec(),
        b"OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,MEAN_ANOMALY,EPHEMERIS_TYPE,CLASSIFICATION_TYPE,NORAD_CAT_ID,ELEMENT_SET_NO,REV_AT_EPOCH,BSTAR,MEAN_MOTION_DOT,MEAN_MOTION_DDOT\nISS,1998-067A,2026-11-21T11:25:29.126688,15.49,.0006703,51.64,247.46,130.53,325.02,0,U,25544,999,56353,-.11606E-4,-.2182E-4,0\n".to_vec(),
    ];
    all.extend(files_of("crates/orbit/tests/data/notations", ""));
    all
}

fn ephemerides_csv() -> Vec<Vec<u8>> {
    vec![b"t_utc,sat_id,x_m,y_m,z_m,frame\n2026-11-22T00:00:00Z,one,7000000,0,0,itrf\n2026-11-22T00:00:10Z,one,7000000,75000,0,itrf\n2026-11-22T00:00:20Z,one,6999000,150000,0,itrf\n".to_vec()]
}

fn ephemerides_oem() -> Vec<Vec<u8>> {
    let mut all = vec![b"CCSDS_OEM_VERS = 2.0\nCREATION_DATE = 2026-11-21T00:00:00\nORIGINATOR = X\nMETA_START\nOBJECT_NAME = ONE\nOBJECT_ID = 2026-001A\nCENTER_NAME = EARTH\nREF_FRAME = ITRF\nTIME_SYSTEM = UTC\nSTART_TIME = 2026-11-22T00:00:00\nSTOP_TIME = 2026-11-22T00:00:20\nINTERPOLATION = LAGRANGE\nINTERPOLATION_DEGREE = 1\nMETA_STOP\n2026-11-22T00:00:00 7000 0 0 0 7.5 0\n2026-11-22T00:00:10 7000 75 0 0 7.5 0\n2026-11-22T00:00:20 6999 150 0 0 7.5 0\n".to_vec()];
    all.extend([".oem", ".xml"].into_iter().flat_map(ephemerides));
    all
}

fn ephemerides_sp3() -> Vec<Vec<u8>> {
    ephemerides(".sp3")
}

fn ephemerides_stk() -> Vec<Vec<u8>> {
    ephemerides(".e")
}

/// The tests' ephemerides with this ending.
fn ephemerides(ending: &str) -> Vec<Vec<u8>> {
    files_of("crates/exchange/tests/data/ephemeris", ending)
}

fn delays() -> Vec<Vec<u8>> {
    vec![
        b"delay_ms,a,b,c\na,,1,2.5\nb,1,,3\nc,2.5,3,\n".to_vec(),
        b"from,to,delay_ms\na,b,1\nb,a,1\na,c,2.5\n".to_vec(),
    ]
}

fn recordings() -> Vec<Vec<u8>> {
    let mut all = vec![
        b"1\n2\n2\n5\n9\n".to_vec(),
        b"t_s,rate_bit_per_s\n0,1000000\n1,5e6\n2.5,0\n".to_vec(),
    ];
    all.extend(
        file("crates/link/tests/data/starlink-delay-10ms.txt")
            .into_iter()
            .map(|mut bytes| {
                bytes.truncate(4_000);
                bytes
            }),
    );
    all
}

fn compose_files() -> Vec<Vec<u8>> {
    let of = |bytes: Vec<u8>| [bytes, b"\0A=1\nB=\"two\"\nexport C=$A\n".to_vec()].concat();
    let mut all: Vec<Vec<u8>> = file("crates/exchange/tests/data/compose.yaml")
        .into_iter()
        .map(of)
        .collect();
    all.push(of(b"services:\n  web: {image: nginx, networks: [front], env_file: .env, ports: ['80:80']}\n  db: {image: postgres:16, networks: [front]}\nnetworks: {front: {}}\n".to_vec()));
    all
}

fn hypatia_files() -> Vec<Vec<u8>> {
    let shell = Shell {
        star: false,
        altitude_m: 550e3,
        inclination_deg: 53.0,
        planes: 4,
        per_plane: 5,
        phasing: 1,
        raan0_deg: 10.0,
        isl: true,
        min_elevation_deg: None,
    };
    let epoch = "2026-11-21T06:30:00Z".parse().expect("a date of ours");
    let tles = hypatia::write_tles("x", &[shell], epoch).unwrap_or_default();
    let links: Vec<(u32, u32)> = (0..40).map(|n| (n % 20, (n + 1) % 20)).collect();
    let links = hypatia::write_isls(&links);
    let stations = hypatia::write_stations(&[Station {
        name: "Tokyo".into(),
        latitude_deg: 35.6895,
        longitude_deg: 139.69171,
        altitude_m: 0.0,
    }]);
    vec![[tles, links, stations].join("\0").into_bytes()]
}

fn nistnet_rows() -> Vec<Vec<u8>> {
    vec![b"# rows\ncnistnet -u\ncnistnet -a 10.0.0.1:80.tcp 10.0.1.0 8 add new --delay 100.5 10/0.5 --drop 1.25 --dup 0.5/0.1 --bandwidth 125000 --drd 10 50\n0.0.0.0 0.0.0.0 --drop 100\n".to_vec()]
}

fn captures() -> Vec<Vec<u8>> {
    let mut bytes = pcapng::header(&["a/eth0".to_owned(), "b/eth0".to_owned()]);
    bytes.extend(pcapng::statistics(1, 2));
    vec![bytes]
}
