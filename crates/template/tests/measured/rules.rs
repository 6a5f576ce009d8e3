//! Where we differ from the measured results on purpose.

use serde_json::Value;

use crate::Case;
use crate::ours::normal;

pub struct Rule {
    pub name: &'static str,
    /// Tells whether the rule is about a case with this measured result.
    pub about: fn(&Case, &Value) -> bool,
    /// Tells whether our result is what the rule says.
    pub holds: fn(&Case, &Value, &Value) -> bool,
}

fn error(value: &Value) -> &str {
    value["error"]
        .as_str()
        .or_else(|| value["ok"]["error"].as_str())
        .unwrap_or_default()
}

fn request_text(case: &Case) -> String {
    case.request.to_string()
}

pub const RULES: [Rule; 14] = [
    Rule {
        name: "a backslash stays unless it protects a blank, a quote or itself",
        about: |case, _| case.newer.is_some() && request_text(case).contains("\\\\"),
        holds: |case, _, ours| {
            case.newer
                .as_ref()
                .is_some_and(|newer| normal(case, newer) == *ours)
        },
    },
    Rule {
        name: "scripts get their interpreter",
        about: |case, _| case.op() == "invoke" && case.newer.is_some(),
        holds: |case, _, ours| {
            case.newer
                .as_ref()
                .is_some_and(|newer| normal(case, newer) == *ours)
        },
    },
    Rule {
        name: "a script named .sh is a shell risk",
        about: |case, _| case.op() == "risks" && case.newer.is_some(),
        holds: |case, _, ours| {
            case.newer
                .as_ref()
                .is_some_and(|newer| normal(case, newer) == *ours)
        },
    },
    Rule {
        name: "division by zero is an error",
        about: |_, measured| matches!(measured["ok"].as_str(), Some("Infinity" | "NaN")),
        holds: |_, _, ours| error(ours).starts_with("Division by zero"),
    },
    Rule {
        name: "a mapping is its JSON text",
        about: |_, measured| measured["ok"] == "[object Object]",
        holds: |_, _, ours| ours["ok"].as_str().is_some_and(|text| text.starts_with('{')),
    },
    Rule {
        name: "names of the reference's language are no values",
        about: |case, _| {
            ["toString", "constructor"]
                .iter()
                .any(|name| request_text(case).contains(name))
        },
        holds: |_, _, ours| ours["ok"] == "x" || ours["ok"] == false,
    },
    Rule {
        name: "a comma inside a default belongs to it",
        about: |case, _| case.op() == "arg_decls" && request_text(case).contains("=[1,"),
        holds: |_, _, ours| {
            ours["ok"]["args"] == serde_json::json!(["a"])
                && ours["ok"]["defaults"] == serde_json::json!({"a": "[1,2]"})
        },
    },
    Rule {
        name: "a NUL character is refused before a process starts",
        about: |case, _| case.op() == "invoke" && request_text(case).contains("\\u0000"),
        holds: |_, _, ours| error(ours).contains("contains a NUL character"),
    },
    Rule {
        name: "a node inside a node is one command everywhere",
        about: |case, _| {
            let inner = &case.request["config"]["template"];
            inner.is_object() && matches!(case.op(), "invoke" | "leaves")
        },
        holds: |_, _, ours| ours.get("ok").is_some(),
    },
    Rule {
        name: "refused as well, in our words",
        about: |case, measured| case.op() == "invoke" && error(measured) == "Command template is required",
        holds: |_, _, ours| ours.get("error").is_some(),
    },
    Rule {
        name: "a broken shape is refused before anything runs",
        about: |case, measured| case.op() == "exec" && error(measured).contains("produced an empty command"),
        holds: |_, measured, ours| {
            error(ours).starts_with(error(measured)) && ours["ok"]["calls"] == serde_json::json!([])
        },
    },
    Rule {
        name: "the limit's refusal names no variable",
        about: |_, measured| error(measured).contains("exceeds limit 64"),
        holds: |_, measured, ours| {
            let shared = error(measured).split(';').next().unwrap_or_default();
            error(ours).starts_with(shared)
        },
    },
    Rule {
        name: "attempts of a command are counted here, not by the launcher",
        about: |_, measured| measured["ok"]["calls"].to_string().contains("\"retry\""),
        holds: |_, measured, ours| {
            let measured_calls = measured["ok"]["calls"].as_array().cloned().unwrap_or_default();
            let allowed: u64 = measured_calls
                .iter()
                .map(|call| call["retry"].as_u64().unwrap_or(1))
                .sum();
            let calls = ours["ok"]["calls"].as_array().map_or(0, Vec::len) as u64;
            calls > measured_calls.len() as u64
                && calls <= allowed
                && ours["ok"]["details"]["command"] == measured["ok"]["details"]["command"]
        },
    },
    Rule {
        name: "a time limit holds for a group, and output is applied",
        about: |case, _| {
            let node = &case.request["template"];
            (node.get("timeout").is_some() && node["template"].is_array()) || node.get("output").is_some()
        },
        holds: |case, measured, ours| {
            if case.request["template"].get("output").is_some() {
                return ours["ok"]["text"] == case.request["values"]["ogg"];
            }
            let limited = ours["ok"]["calls"].as_array().is_some_and(|calls| {
                calls
                    .iter()
                    .all(|call| call["timeout"] == case.request["template"]["timeout"])
            });
            limited && ours["ok"]["text"] == measured["ok"]["text"]
        },
    },
];

pub fn explains(case: &Case, measured: &Value, ours: &Value) -> Option<&'static str> {
    RULES
        .iter()
        .find(|rule| (rule.about)(case, measured) && (rule.holds)(case, measured, ours))
        .map(|rule| rule.name)
}
