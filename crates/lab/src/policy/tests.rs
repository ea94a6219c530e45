use super::*;

#[test]
fn doubts_name_the_policy_and_all_reasons() {
    let row = |late, refused, stayed| PolicyRow {
        name: "balance".to_owned(),
        within_ns: 200_000_000,
        steps: 600,
        decided: 600 - late,
        late,
        refused,
        changes: 5,
        answer_ns: None,
        state_ns: None,
        stayed,
    };
    assert_eq!(doubt(&row(0, 0, true)), None);
    assert_eq!(
        doubt(&row(3, 2, false)).unwrap(),
        "the live policy `balance` did not answer within 200 ms in 3 of 600 steps, and gave 2 answers that were refused, \
         and ended without leaving: its decisions before held"
    );
}
