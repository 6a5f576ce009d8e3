//! Runs the measured cases of the command template standard.
//!
//! A case gives the measured result, or differs by a named rule. Rules know requests and measured results, never the
//! ids of cases, so a new case of the same kind is judged alike.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

#[path = "measured/ours.rs"]
mod ours;
#[path = "measured/rules.rs"]
mod rules;
#[path = "measured/scripted.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

pub struct Case {
    pub id: String,
    pub group: String,
    pub request: Value,
    pub result: Value,
    pub newer: Option<Value>,
}

impl Case {
    pub fn op(&self) -> &str {
        self.request["op"].as_str().unwrap_or_default()
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!("cases/command-templates.json");
    let document: Value = serde_json::from_str(text).unwrap();
    let cases = document["cases"].as_array().unwrap();
    cases
        .iter()
        .map(|case| Case {
            id: case["id"].as_str().unwrap().to_owned(),
            group: case["group"].as_str().unwrap().to_owned(),
            request: case["request"].clone(),
            result: case["result"].clone(),
            newer: case.get("result_0_50").cloned(),
        })
        .collect()
}

/// Are the groups that other crates judge, or that no crate has yet, with the reason.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "name",
        "registration is a matter of recipes: judged by pentad-recipe",
    ),
    ("recipe", "files are a matter of recipes: judged by pentad-recipe"),
    (
        "discover",
        "roots are a matter of recipes: judged by pentad-recipe",
    ),
    ("lineage", "the launch ledger is not built"),
    ("review", "the scan for secrets in drafts is not built"),
];

#[test]
fn every_measured_case_is_the_same_or_differs_by_a_rule() {
    let mut table: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = String::new();
    let all = cases();
    assert_eq!(all.len(), 409);
    for case in &all {
        if let Some((group, reason)) = ELSEWHERE.iter().find(|(group, _)| *group == case.group) {
            *table.entry(format!("{group}: not here ({reason})")).or_default() += 1;
            continue;
        }
        let expected = ours::normal(case, &case.result);
        let got = ours::answer(case);
        let verdict = if got == expected {
            Some("same")
        } else {
            rules::explains(case, &expected, &got)
        };
        match verdict {
            Some(verdict) => *table.entry(format!("{}: {verdict}", case.group)).or_default() += 1,
            None => {
                writeln!(
                    wrong,
                    "{} {}\n  measured {expected}\n  ours     {got}",
                    case.id, case.request
                )
                .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "cases that differ without a rule:\n{wrong}");
    let table: String = table
        .iter()
        .map(|(line, count)| format!("{count:>4}  {line}\n"))
        .collect();
    insta::assert_snapshot!(table);
}

#[test]
fn every_rule_is_needed() {
    let all = cases();
    for rule in rules::RULES {
        let used = all.iter().any(|case| {
            !ELSEWHERE.iter().any(|(group, _)| *group == case.group) && {
                let expected = ours::normal(case, &case.result);
                let got = ours::answer(case);
                got != expected && rules::explains(case, &expected, &got) == Some(rule.name)
            }
        });
        assert!(used, "no case needs the rule {}", rule.name);
    }
}
