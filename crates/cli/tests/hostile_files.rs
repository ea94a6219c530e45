//! Files that a user names and others have made: every reader has a bound in bytes and time, refuses what is no regular file, and prints
//! nothing that a terminal obeys. No root, but for the last two tests.

use crate::support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, constel, finish, scenario, stderr, stdout};

fn pipe(path: PathBuf) -> PathBuf {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// It ends by itself (`constel` kills and panics otherwise), with an error that says what the file is.
fn refused(args: &[&str], why: &str) {
    let output = constel(args);
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| (1..=4).contains(&code)),
        "{args:?}: {:?}",
        output.status
    );
    assert!(
        stderr(&output).contains(why),
        "{args:?}: {}",
        stderr(&output)
    );
}

#[test]
fn no_pipe_is_waited_for_and_no_device_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&dir.path().join(name));
    for ending in ["yaml", "json", "toml", "xml", "csv", "tar"] {
        pipe(dir.path().join(format!("pipe.{ending}")));
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(format!("zero.{ending}"))).unwrap();
    }
    let small = text(&scenario::small(
        dir.path(),
        "small.yaml",
        "{mode: computed}",
        "",
    ));
    let store = at("images");
    for (kind, is) in [("pipe", "a named pipe"), ("zero", "a device")] {
        let file = |ending: &str| at(&format!("{kind}.{ending}"));
        for args in [
            vec!["check".to_owned(), file("yaml")],
            vec!["plan".to_owned(), file("yaml")],
            vec!["box".to_owned(), "check".to_owned(), file("yaml")],
            vec!["box".to_owned(), "import".to_owned(), file("csv")],
            vec!["import".to_owned(), file("yaml")],
            vec!["import".to_owned(), file("json")],
            vec!["import".to_owned(), file("toml")],
            vec!["import".to_owned(), file("xml")],
            vec![
                "image".to_owned(),
                "import".to_owned(),
                file("tar"),
                "--store".to_owned(),
                store.clone(),
            ],
            vec![
                "sweep".to_owned(),
                small.clone(),
                "--choices".to_owned(),
                file("yaml"),
            ],
        ] {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            refused(&args, is);
        }
    }
    // One that another file names.
    pipe(dir.path().join("env"));
    let compose = "services:\n  web: {image: nginx, env_file: env, networks: [a]}\n  db: {image: nginx, networks: [a]}\nnetworks: {a: {}}\n";
    fs::write(at("compose.yaml"), compose).unwrap();
    refused(&["import", &at("compose.yaml")], "env");
    // One that is read without being named, and one that may be missing.
    for (own, name, service) in [
        ("unnamed", ".env", "{image: nginx, networks: [a]}"),
        (
            "optional",
            "env",
            "{image: nginx, networks: [a], env_file: {path: env, required: false}}",
        ),
    ] {
        let folder = dir.path().join(own);
        fs::create_dir(&folder).unwrap();
        pipe(folder.join(name));
        let file = folder.join("compose.yaml");
        let compose =
            format!("services:\n  web: {service}\n  db: {service}\nnetworks: {{a: {{}}}}\n");
        fs::write(&file, compose).unwrap();
        refused(&["import", &text(&file)], "a named pipe");
    }
}

#[test]
fn a_stream_that_the_caller_gives_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        r#"printf '10.0.0.1 10.0.0.2 --delay 5\n' | "$0" box import /dev/stdin"#,
        CONSTEL,
    ]);
    command.current_dir(dir.path());
    let output = finish(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("rules:"));
}

#[test]
fn nothing_of_a_file_reaches_the_terminal_as_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows");
    let odd =
        "10.0.0.1 10.0.0.2 --delay \u{1b}]0;title\u{7}\u{1b}[2J\n\u{9b}31m \u{202e}x y --drop 5\n";
    fs::write(&file, odd).unwrap();
    for name in ["rows", "rows.json", "rows.yaml", "rows.xml", "rows.toml"] {
        let file = text(&dir.path().join(name));
        fs::write(&file, odd).unwrap();
        for args in [
            vec!["box", "import", &file],
            vec!["import", &file],
            vec!["check", &file],
        ] {
            plain(&args, &constel(&args));
        }
    }
}

fn plain(args: &[&str], output: &Output) {
    for text in [stdout(output), stderr(output)] {
        let odd = |c: char| {
            (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(&c)
        };
        assert!(!text.contains(odd), "{args:?}: {text:?}");
    }
}

/// Each notation of elements, with an error in each of many records: twice the work for each would take minutes.
#[test]
fn errors_of_many_records_cost_no_more_than_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let tle = "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2920\n\
        2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563530\n";
    let names = "OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,MEAN_ANOMALY,\
        EPHEMERIS_TYPE,CLASSIFICATION_TYPE,NORAD_CAT_ID,ELEMENT_SET_NO,REV_AT_EPOCH,BSTAR,MEAN_MOTION_DOT,MEAN_MOTION_DDOT";
    // No satellite flies on a hyperbola.
    let row = "ONE,2026-001A,2026-11-20T12:00:00,15.05,1.5,53.0,10.0,80.0,20.0,0,U,25544,999,1234,0.0001,0.00001,0";
    let cells = || names.split(',').zip(row.split(','));
    let keywords: String = cells()
        .map(|(name, cell)| format!("{name} = {cell}\n"))
        .collect();
    let object: Vec<String> = cells()
        .map(|(name, cell)| format!("\"{name}\":\"{cell}\""))
        .collect();
    let object = format!("{{{}}},", object.join(","));
    let records = |one: &str| one.repeat(40_000);
    let [csv, kvn, json] = [
        format!("{names}\n{}", records(&format!("{row}\n"))),
        records(&format!("CCSDS_OMM_VERS = 2.0\n{keywords}")),
        format!("[{}]", records(&object).trim_end_matches(',')),
    ];
    for (key, name, content) in [
        ("tle", "many.tle", records(tle)),
        ("omm", "many.csv", csv),
        ("omm", "many.kvn", kvn),
        ("omm", "many.json", json),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
        let file = scenario::write(
            dir.path(),
            "many.yaml",
            &format!(
                "constel: 1\nname: many\nstart: 2026-11-21T00:00:00Z\nduration: 1 s\nstep: 1 s\nconstellations:\n  sat:\n    {key}:\n      file: {name}\n      \
                 shells: [{{name: s1, inclination: 51.6 deg, altitude: 400 km, altitude_tolerance: 6 km, inclination_tolerance: 0.15 deg, planes: 1}}]\n    \
                 isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s}}}}\n    gsl: {{min_elevation: 5 deg, policy: nearest, link: {{rate: 100 Mbit/s}}}}\n"
            ),
        );
        let output = constel(["check", &text(&file)]);
        assert_eq!(output.status.code(), Some(4), "{name}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(name),
            "{name}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_path_that_is_no_utf_8_is_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let name = |bytes: &[u8]| dir.path().join(OsString::from_vec(bytes.to_vec()));
    let small = scenario::small(dir.path(), "small.yaml", "{mode: computed}", "");
    let odd = name(b"sc\xe9.yaml");
    fs::rename(&small, &odd).unwrap();
    for verb in ["check", "plan"] {
        let output = constel([verb.as_ref(), odd.as_os_str()]);
        assert_eq!(output.status.code(), Some(0), "{verb}: {}", stderr(&output));
    }
    let folder = name(b"fol\xe9der");
    fs::create_dir(&folder).unwrap();
    fs::rename(&odd, folder.join("small.yaml")).unwrap();
    let output = constel(["check".as_ref(), folder.join("small.yaml").as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn the_store_of_images_says_what_it_needs() {
    // A relative path would name another folder wherever the command runs.
    let homes: [&[(&str, &str)]; 4] = [
        &[],
        &[("HOME", "")],
        &[("HOME", "relative/home")],
        &[("HOME", ""), ("XDG_CACHE_HOME", "relative")],
    ];
    for home in homes {
        let mut command = Command::new(CONSTEL);
        command
            .args(["image", "list"])
            .env_clear()
            .envs(home.iter().copied())
            .stdin(Stdio::null());
        let output = finish(command);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{home:?}: {said}");
        assert!(said.contains("HOME") && said.contains("--store"), "{said}");
        assert!(!said.contains("fetch or save"), "{said}");
    }
}

/// Writes the results of a box, as earlier versions left them.
fn results_of_a_box(run: &Path) {
    fs::create_dir(run).unwrap();
    let write = |name: &str, text: &str| fs::write(run.join(name), text).unwrap();
    write(
        "manifest.json",
        r#"{"version": 1, "constel": "0.1.0", "kind": "box", "lab": "x", "scenario": "box.yaml", "seed": 1, "mode": "shared", "interfaces": [], "rules": 0, "inputs": [], "bounds": {}, "kernel": null, "command_line": []}"#,
    );
    write("scenario.yaml", "constel: 1\n");
    write("series.csv", "t_s,cpu_ratio\n0,0.5\n1,0.25\n");
}

/// Paths that verbs read and write may be Latin-1, as old archives and other locales leave them.
#[test]
fn results_and_images_have_paths_that_are_no_utf_8() {
    let dir = tempfile::tempdir().unwrap();
    let name = |text: &[u8]| dir.path().join(OsString::from_vec(text.to_vec()));
    let run = name(b"r\xe9sultats");
    results_of_a_box(&run);
    let verb = |words: &[&str], more: &[&OsStr]| {
        let words = words.iter().map(OsStr::new);
        let output = constel(words.chain(more.iter().copied()).collect::<Vec<_>>());
        plain(&["(a path that is no UTF-8)"], &output);
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
        output
    };
    let flag = OsStr::new("--out");
    for (out, words, more) in [
        (name(b"t\xe9.csv"), "export", &["series"][..]),
        (
            name(b"t\xe9.parquet"),
            "export",
            &["series", "--format", "parquet"],
        ),
        (name(b"p\xe9.tar.gz"), "pack", &[]),
    ] {
        let mut args = vec![run.as_os_str()];
        args.extend(more.iter().map(OsStr::new));
        args.extend([flag, out.as_os_str()]);
        let output = verb(&["results", words], &args);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words}: {}",
            stderr(&output)
        );
        assert!(out.exists(), "{}", out.display());
    }
    // The run has no summary: the error names the path.
    let output = verb(&["results"], &[run.as_os_str()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("summary.json"),
        "{}",
        stderr(&output)
    );
    // An image's files, and the store that they go to.
    let (root, store) = (name(b"r\xe9"), name(b"st\xe9re"));
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "").unwrap();
    let mut command = Command::new(CONSTEL);
    command.args(["image", "import", "--name", "odd", "rootfs:."]);
    command.arg("--store").arg(&store).current_dir(&root);
    let output = finish(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = verb(&["image", "list", "--store"], &[store.as_os_str()]);
    assert!(stdout(&output).contains("odd"), "{}", stderr(&output));
    // A source is a path in any of its forms, and a name only where it names an image.
    let source = |prefix: &str| {
        let mut source = OsString::from(prefix);
        source.push(&root);
        source
    };
    let in_store = OsStr::new("--store");
    for (prefix, code, words) in [
        ("rootfs:", Some(0), ""),
        // A folder that is no image.
        ("", Some(1), "it is no image"),
        ("oci:", Some(1), ""),
        ("docker-daemon:", Some(2), "a name is UTF-8"),
        ("docker://", Some(2), "a name is UTF-8"),
    ] {
        let source = source(prefix);
        let more = [source.as_os_str(), in_store, store.as_os_str()];
        let output = verb(&["image", "import", "--name", "odd"], &more);
        assert_eq!(output.status.code(), code, "{prefix} {}", stderr(&output));
        assert!(
            stderr(&output).contains(words),
            "{prefix} {}",
            stderr(&output)
        );
    }
}

#[test]
fn results_of_a_box_are_exported_and_packed() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    results_of_a_box(&run);
    let (run, out) = (text(&run), text(&dir.path().join("out")));
    let exported = constel([
        "results", "export", &run, "series", "--format", "csv", "--out", &out,
    ]);
    assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
    let bundle = text(&dir.path().join("bundle.tar.gz"));
    let packed = constel(["results", "pack", &run, "--out", &bundle]);
    assert_eq!(packed.status.code(), Some(0), "{}", stderr(&packed));
    let web = constel(["web", &run, "--no-open"]);
    assert_eq!(web.status.code(), Some(2), "{}", stderr(&web));
    assert!(
        stderr(&web).contains("the run of a box"),
        "{}",
        stderr(&web)
    );
}

#[test]
fn flags_that_a_box_would_ignore_are_refused() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/box.yaml");
    let pid = std::process::id().to_string();
    for flags in [
        &["--profile", "20"][..],
        &["--anyway"],
        &["--ends-with", &pid],
    ] {
        let mut args = vec!["run".to_owned(), text(&file)];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let output = constel(&args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{flags:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains(flags[0]), "{}", stderr(&output));
    }
}

/// Output of a node's program, and a folder of results whose name is no UTF-8.
#[test]
fn what_a_program_writes_is_shown_and_not_obeyed() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:\n- {name: odd, at: 0 s, for: 1 s, run: {node: west, command: [sh, -c, \"printf '\\\\033]0;t\\\\007\\\\033[2Jwords' >&2; exit 3\"]}}\n";
    let file = scenario::small(dir.path(), "odd.yaml", "{mode: computed}", traffic);
    let results = dir.path().join(OsString::from_vec(b"out\xe9".to_vec()));
    let mut command = Command::new(CONSTEL);
    let name = format!("odd-{}", std::process::id());
    command
        .args(["run", "--for", "2s", "--name", &name])
        .arg(&file);
    command.arg("--results").arg(&results).stdin(Stdio::null());
    let output = finish(command);
    // The program exits with 3, so the run exits with 1: its software failed.
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("words"), "{}", stdout(&output));
    plain(&["run"], &output);
    let mut command = Command::new(CONSTEL);
    command.arg("results").arg(&results);
    plain(&["results"], &finish(command));
}

/// A command's arguments are bytes, as everywhere, in one node and in many. The scenario's folder has such a name too.
#[test]
fn a_command_has_its_arguments_byte_by_byte() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(OsString::from_vec(b"fol\xe9der".to_vec()));
    fs::create_dir(&folder).unwrap();
    let file = scenario::small(&folder, "small.yaml", "{mode: computed}", "");
    let mut lab = Lab::up("bytes", &file, dir.path(), &[]);
    let odd = OsStr::from_bytes(b"a\xe9\xffb");
    let exec = |node: &str, command: &[&OsStr]| {
        let words = ["exec", &lab.name, node, "--"].map(OsStr::new).into_iter();
        constel(words.chain(command.iter().copied()).collect::<Vec<_>>())
    };
    let output = exec("west", &["printf".as_ref(), "%s".as_ref(), odd]);
    assert_eq!(output.stdout, odd.as_bytes(), "{}", stderr(&output));
    let output = exec("*st", &["test".as_ref(), odd, "=".as_ref(), odd]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("bytes");
}
