//! Sweeps whose runs are made by a script.

use std::fs;
use std::sync::atomic::AtomicUsize;

use super::folder::PLOTS;
use super::*;

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sweep/tests/fake-constel");
/// The files that a sweep leaves beside its runs and its pictures.
const FILES: [&str; 3] = ["sweep.json", "table.json", "table.csv"];

fn four_by(seeds: &[u64]) -> Design {
    let axes = vec!["a=1,2".parse().unwrap(), "b=x,y".parse().unwrap()];
    Design::new("fake.yaml", "constel: 1\n", axes, seeds.to_vec()).unwrap()
}

fn options(out: &Path, shard: Option<&str>) -> SweepOptions {
    SweepOptions {
        out: out.to_owned(),
        name: None,
        shard: shard.map(|shard| shard.parse().unwrap()),
        jobs: NonZeroU16::MIN,
        again: 0,
        trustworthy_only: false,
        virtual_time: Some(true),
        program: PathBuf::from(FAKE),
        stop: Arc::new(AtomicBool::new(false)),
    }
}

/// Stops the sweep after some runs.
struct StopAfter {
    left: AtomicUsize,
    stop: Arc<AtomicBool>,
}

impl Progress for StopAfter {
    fn stage(&self, _: &str, done: u64, _: u64, _: &str) {
        if done > 0 && self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stop.store(true, Ordering::Release);
        }
    }

    fn say(&self, _: &str) {}
}

/// Makes a sweep, or `runs` of its runs. Returns whether it was stopped.
fn make(design: &Design, options: &SweepOptions, runs: usize) -> bool {
    let progress = StopAfter {
        left: AtomicUsize::new(runs),
        stop: Arc::clone(&options.stop),
    };
    let swept = sweep(design, options, &progress).unwrap();
    assert_eq!(swept.failures, [""; 0]);
    swept.interrupted
}

fn calls(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("calls")).unwrap_or_default();
    let mut calls: Vec<String> = text.lines().map(str::to_owned).collect();
    calls.sort();
    calls
}

fn assert_same_files(one: &Path, other: &Path) {
    let plots = fs::read_dir(one.join(PLOTS)).unwrap();
    let plots = plots.map(|plot| format!("{PLOTS}/{}", plot.unwrap().file_name().display()));
    let names: Vec<String> = FILES.map(str::to_owned).into_iter().chain(plots).collect();
    assert!(names.len() > FILES.len());
    for name in names {
        let [one, other] = [one, other].map(|dir| fs::read_to_string(dir.join(&name)).unwrap());
        assert!(one.len() > 100, "{name}: {one}");
        assert_eq!(one, other, "{name}");
    }
}

fn why(result: Result<Merged, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn merged_shards_have_the_bytes_of_a_sweep_in_one_go() {
    let dir = tempfile::tempdir().unwrap();
    let [at_once, apart] = ["at-once", "apart"].map(|name| dir.path().join(name).join("study"));
    let design = four_by(&[1, 2, 3]);
    assert!(!make(&design, &options(&at_once, None), usize::MAX));

    // One folder for three shards; the second one is stopped and started again.
    for (shard, runs, stopped) in [
        ("2/3", 1, true),
        ("1/3", usize::MAX, false),
        ("2/3", usize::MAX, false),
    ] {
        assert_eq!(
            make(&design, &options(&apart, Some(shard)), runs),
            stopped,
            "{shard}"
        );
    }
    assert!(!apart.join("table.json").exists());
    let merged = merge(std::slice::from_ref(&apart), None, false).unwrap();
    assert_eq!(merged.missing.len(), 4, "{:?}", merged.missing);
    // An attempt that was killed has no summary.
    let cell = design
        .cells_of(Some("3/3".parse().unwrap()))
        .next()
        .unwrap();
    let killed = format!("runs/{}/seed-{}/1", cell.variant.folder, cell.seed);
    fs::create_dir_all(apart.join(&killed)).unwrap();
    fs::write(apart.join(&killed).join("manifest.json"), "{}").unwrap();
    make(&design, &options(&apart, Some("3/3")), usize::MAX);

    let merged = merge(std::slice::from_ref(&apart), None, false).unwrap();
    assert_eq!(merged.missing, [""; 0]);
    assert_same_files(&at_once, &apart);
    // Every run was made once.
    let parent = |dir: &Path| calls(dir.parent().unwrap());
    assert_eq!(parent(&apart), parent(&at_once));
    assert_eq!(parent(&apart).len(), 12);

    // The whole sweep finds nothing left to do.
    make(&design, &options(&apart, None), usize::MAX);
    assert_eq!(parent(&apart).len(), 12);
    assert_same_files(&at_once, &apart);
}

#[test]
fn folders_of_machines_are_merged_into_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| dir.path().join(name);
    let design = four_by(&[5, 6]);
    make(&design, &options(&folder("at-once"), None), usize::MAX);
    let shards = ["1/2", "2/2"].map(|shard| folder(&shard.replace('/', "-of-")));
    for (at, shard) in ["1/2", "2/2"].iter().enumerate() {
        make(&design, &options(&shards[at], Some(shard)), usize::MAX);
    }
    let out = folder("merged");
    assert!(why(merge(&shards, None, false)).contains("need --out"));
    let merged = merge(&shards, Some(&out), false).unwrap();
    assert_eq!((&merged.out, merged.missing.len()), (&out, 0));
    assert_same_files(&folder("at-once"), &out);
    // The merged sweep has the runs as well, and continues like any other.
    let run = out.join("runs/00-a-1-b-x/seed-5/1");
    assert_eq!(
        fs::read_link(run.join("latest")).unwrap(),
        Path::new("summary.json")
    );
    assert!(!run.join("pipe").exists());
    let before = calls(dir.path()).len();
    make(&four_by(&[5, 6, 7]), &options(&out, None), usize::MAX);
    assert_eq!(calls(dir.path()).len(), before + 4);

    assert!(why(merge(&shards, Some(&out), false)).contains("is not empty"));
    let twice = [shards[0].clone(), folder("at-once")];
    assert!(why(merge(&twice, Some(&folder("new")), false)).contains("both have runs of a=1, b=x"));
    let other = [shards[0].clone(), out.clone()];
    assert!(why(merge(&other, Some(&folder("new")), false)).contains("different sweeps"));
    assert!(why(merge(&[dir.path().to_owned()], None, false)).contains("no folder of a sweep"));
    let missing = merge(&shards[1..], None, false).unwrap().missing;
    assert_eq!(missing.len(), 4);
    assert!(missing[0].starts_with("a=1"), "{missing:?}");
}

#[test]
fn shards_share_a_folder_and_exclude_others() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("study");
    let design = four_by(&[1]);
    let open = |design: &Design, shard: Option<&str>| {
        Folder::open(&out, design, shard.map(|shard| shard.parse().unwrap()))
    };
    let why = |result: Result<Folder, Error>| result.err().unwrap().to_string();
    let first = open(&design, Some("1/2")).unwrap();
    let second = open(&design, Some("2/2")).unwrap();
    assert!(why(open(&design, None)).contains("another `constel sweep` works here"));
    // A run that another process makes is not made a second time.
    let cell = design.cells().next().unwrap();
    let reserved = first.reserve(&cell).unwrap().unwrap();
    assert!(second.reserve(&cell).unwrap().is_none());
    let swept = sweep(&design, &options(&out, Some("1/1")), &Silent).unwrap();
    assert_eq!(swept.failures.len(), 1, "{:?}", swept.failures);
    assert!(swept.failures[0].contains("another `constel sweep` makes this run"));
    drop(reserved);
    // More seeds may be appended; with fewer ones the shards would not fit together.
    open(&four_by(&[1, 2]), Some("1/2")).unwrap();
    assert!(why(open(&design, Some("1/2"))).contains("all shards need the same --seeds"));
    drop((first, second));

    let text = fs::read_to_string(out.join("sweep.json")).unwrap();
    fs::write(
        out.join("sweep.json"),
        text.replace("\"version\": 2", "\"version\": 1"),
    )
    .unwrap();
    assert!(why(open(&design, None)).contains("version 1, and this constel reads 2"));
}

struct Silent;

impl Progress for Silent {
    fn stage(&self, _: &str, _: u64, _: u64, _: &str) {}
    fn say(&self, _: &str) {}
}
