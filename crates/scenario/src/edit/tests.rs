use proptest::prelude::*;

use super::{Setting, set};

fn made(text: &str, settings: &[&str]) -> Result<String, String> {
    let settings: Vec<Setting> = settings.iter().map(|s| s.parse().unwrap()).collect();
    set("x.yaml", text, &settings).map_err(|errors| errors.to_string())
}

#[test]
fn the_text_stays_the_users() {
    let text = "a: 1 # one\nb: # section\n  c: two words   # tail\n  d:\n    - e: 1\n      name: x\n    - {e: 2, name: y}\n\nf: [1, 2]\ng:\nh: |\n  long\n  text\n# note\ni: end\n";
    let cases = [
        ("a=2", "a: 1 # one", "a: 2 # one"),
        ("b.c=20 ms", "two words   #", "20 ms   #"),
        ("b.c=\"7\"", "two words", "\"7\""),
        ("b.d[0].e={k: [1, b]}", "e: 1\n", "e: {k: [1, b]}\n"),
        ("b.d[y].e=3", "{e: 2", "{e: 3"),
        ("b.d[x].z=3", "- e: 1", "- z: 3\n      e: 1"),
        ("b.d[1].z.w=3", "{e: 2", "{z: {w: 3}, e: 2"),
        (
            "b.d=[]",
            "d:\n    - e: 1\n      name: x\n    - {e: 2, name: y}",
            "d: []",
        ),
        ("b.n.m=x y", "  c: two", "  n: {m: x y}\n  c: two"),
        ("f[1]=9", "[1, 2]", "[1, 9]"),
        ("g=here", "g:", "g: here"),
        ("g.k=here", "g:", "g: {k: here}"),
        ("\"q.r\"=1", "a: 1", "q.r: 1\na: 1"),
        ("h=short", "|\n  long\n  text", "short"),
        ("i=a: b", "i: end", "i: {a: b}"),
        ("i='a: b'", "i: end", "i: \"a: b\""),
    ];
    for (setting, old, new) in cases {
        assert_eq!(text.matches(old).count(), 1, "{old}");
        assert_eq!(
            made(text, &[setting]).unwrap(),
            text.replace(old, new),
            "{setting}"
        );
    }
    // One after another, the later of two holds, and an empty file can be filled.
    assert_eq!(
        made("a: 1\n", &["a=2", "b.c=1", "b.d=2", "a=3"]).unwrap(),
        "b: {d: 2, c: 1}\na: 3\n"
    );
    assert_eq!(made("a: {}\n", &["a.b=1"]).unwrap(), "a: {b: 1}\n");
    assert_eq!(made("", &["a.b=1"]).unwrap(), "{a: {b: 1}}");
    assert_eq!(
        made("größe: ä # ü\nö: 1\n", &["größe=ß"]).unwrap(),
        "größe: ß # ü\nö: 1\n"
    );
}

#[test]
fn what_cannot_be_set_is_told_all_at_once() {
    let text = "a: 1\nb: &x {c: 1}\nd: *x\ne: [{name: n}, {name: n}]\n? f\n: g\n";
    let settings = [
        "a.b=1", "b=2", "d.c=2", "e.c=1", "e[2]=1", "e[m]=1", "e[n]=1", "f=1", "a[0]=1", "z[0]=1",
    ];
    let errors = made(text, &settings).unwrap_err();
    for (setting, reason) in settings.iter().zip([
        "has no key `b`",
        "an anchor stands here",
        "an alias stands here",
        "say which item",
        "past the end",
        "no item of this list",
        "both have",
        "not written as",
        "no list stands here",
        "write the whole list",
    ]) {
        assert!(
            errors.contains(&format!("`{setting}` cannot be set")),
            "{setting}\n{errors}"
        );
        assert!(errors.contains(reason), "{reason}\n{errors}");
    }
    assert!(errors.starts_with("x.yaml:1:"), "{errors}");
    assert!(
        made("a: [", &["a=1"])
            .unwrap_err()
            .contains("this is not YAML")
    );
}

#[test]
fn a_setting_has_a_key_and_a_value() {
    for (text, reason) in [
        ("a", "no `=`"),
        ("=1", "key is missing"),
        ("a.=1", "key is missing"),
        ("a=", "no value"),
        ("a= ", "no value"),
        ("[0]=1", "no item"),
        ("a[=1", "no `]`"),
        ("\"a=1", "no second"),
        ("a]=1", "no `=`"),
        ("a=[1", ""),
        ("a=1\nb: 2", "one line"),
        ("a=*x", ""),
    ] {
        let error = text.parse::<Setting>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let settings = Setting::each("transport.tcp={a: [1, 2]},bbr, \"x,y\"").unwrap();
    let shown: Vec<String> = settings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "transport.tcp={a: [1, 2]}",
            "transport.tcp=bbr",
            "transport.tcp=\"x,y\""
        ]
    );
    assert!(Setting::each("a=").is_err() && Setting::each("a=1]").is_err());
}

#[test]
fn choices_have_names() {
    let choices = Setting::choices(
        "c.yaml",
        "bbr: {\"t[0].cc\": bbr}\nleotp:\n  t: [{k: 1}]\n  u.v: ~\nnone: {}\n",
    )
    .unwrap();
    let told: Vec<String> = choices
        .iter()
        .map(|(name, settings)| {
            format!(
                "{name} {}",
                settings
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        })
        .collect();
    assert_eq!(
        told,
        ["bbr t[0].cc=bbr", "leotp t=[{k: 1}] u.v=\"~\"", "none "]
    );
    for (text, reason) in [
        ("[]", "no choices"),
        ("", "no choices"),
        ("a: 1", "sets nothing"),
        ("a: {b: 1}\na: {b: 2}", "given twice"),
        ("a: {\"b]\": 1}", "no place"),
        ("a: {\"\": 1}", "no place"),
        ("a: [", "not YAML"),
    ] {
        let errors = Setting::choices("c.yaml", text).unwrap_err().to_string();
        assert!(
            errors.starts_with("c.yaml:") && errors.contains(reason),
            "{text}: {errors}"
        );
    }
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-z]{1,4}( [a-z0-9]{1,3})?",
        "-?[0-9]{1,4}",
        Just("''".to_owned()),
        Just("'#: {'".to_owned())
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|v| format!("[{}]", v.join(", "))),
            prop::collection::btree_map("[a-z]{1,2}", inner, 0..3).prop_map(|map| {
                let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                format!("{{{}}}", pairs.join(", "))
            }),
        ]
    })
}

proptest! {
    /// Every value set at any place is there afterwards, and no other line changes.
    #[test]
    fn a_value_is_where_it_was_put(
        old in prop::collection::vec(value(), 3), new in value(), place in 0..3_usize,
    ) {
        let text = format!("k0: {} # 0\nk1:\n  x: {} # 1\nk2:\n- {} # 2\n- z\n", old[0], old[1], old[2]);
        let key = ["k0", "k1.x", "k2[0]"][place];
        let after = made(&text, &[&format!("{key}={new}")]).unwrap();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        for (before, after) in lines(&text).iter().zip(lines(&after)) {
            let concerned = before.ends_with(&format!("# {place}"));
            prop_assert!(concerned || *before == after);
            prop_assert_eq!(before.split_once(" # ").map(|s| s.1.to_owned()), after.split_once(" # ").map(|s| s.1.to_owned()));
        }
        // Twice is once.
        prop_assert_eq!(made(&after, &[&format!("{key}={new}")]).unwrap(), after);
    }

    /// No text makes it panic, and what comes out is YAML.
    #[test]
    fn any_text_is_edited_or_refused(text in "[a-c:{}\\[\\], \n#&*|>'\"?-]{0,40}", key in "[a-c]{1,2}(\\[[0-2]\\])?(\\.[a-c])?") {
        if let Ok(after) = made(&text, &[&format!("{key}=zz: {{y: 1}}")]) {
            let again = made(&after, &[&format!("{key}=zz: {{y: 1}}")]);
            prop_assert_eq!(again, Ok(after));
        }
    }
}
