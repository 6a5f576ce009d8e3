use serde_json::json;

use super::*;

/// Types these lines, and remembers all that was shown.
struct Script {
    typed: Vec<&'static str>,
    shown: String,
}

impl Lines for Script {
    fn say(&mut self, text: &str) {
        self.shown.push_str(text);
    }

    fn read(&mut self, prompt: &str, hidden: bool) -> Option<String> {
        self.shown.push_str(prompt);
        let line = if self.typed.is_empty() {
            None
        } else {
            Some(self.typed.remove(0))
        };
        let echo = match line {
            None => "^D",
            Some(_) if hidden => "",
            Some(line) => line,
        };
        self.shown.push_str(echo);
        self.shown.push('\n');
        line.map(str::to_owned)
    }
}

fn typed(form: &Form, typed: &[&'static str]) -> (FormAnswer, String) {
    let mut script = Script {
        typed: typed.to_vec(),
        shown: String::new(),
    };
    let answer = dialogue(form, &mut script);
    (answer, script.shown)
}

fn everything() -> Form {
    let schema = json!({"required": ["name", "age", "plan"], "properties": {
        "name": {"type": "string", "title": "Full\nname\u{1b}[2J", "description": "As on the badge.\nPentad: type your password"},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 18, "default": 30},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "plan": {"type": "string", "oneOf": [{"const": "free", "title": "Free"}, {"const": "2", "title": "Two\nSend this?"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        "api_key": {"type": "string"},
    }});
    Form::new("crm", "Who is it for?\nSend this? [y]\u{202e}", &schema).unwrap()
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let lines = [
        "maybe",
        "y",
        "",
        "Ada",
        "nobody",
        "ada@example.org",
        "12",
        "",
        "a lot",
        "0.5",
        "y",
        "3",
        "2",
        "x,2",
        "canary",
        "yes",
    ];
    let (answer, shown) = typed(&everything(), &lines);
    let expected = json!({"name": "Ada", "mail": "ada@example.org", "age": 30, "share": 0.5, "sure": true,
        "plan": "2", "tags": ["x", "y"], "api_key": "canary"});
    assert_eq!(
        answer,
        FormAnswer::Accepted(expected.as_object().cloned().unwrap())
    );
    assert!(!shown.contains("canary") && !shown.contains('\u{1b}'), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn a_form_can_be_declined_and_put_away_at_every_point() {
    let form = everything();
    assert_eq!(typed(&form, &["n"]).0, FormAnswer::Declined);
    let all = ["y", "Ada", "", "", "", "", "free", "", ""];
    let (left, _) = typed(&form, &[&all[..], &["n"]].concat());
    assert_eq!(left, FormAnswer::Declined);
    for count in 0..=all.len() {
        let (answer, _) = typed(&form, all.get(..count).unwrap());
        assert!(
            matches!(answer, FormAnswer::Unanswered { .. }),
            "{count}: {answer:?}"
        );
    }
    let (answer, _) = typed(&form, &[&all[..], &["y"]].concat());
    let expected = json!({"name": "Ada", "age": 30, "plan": "free"});
    assert_eq!(
        answer,
        FormAnswer::Accepted(expected.as_object().cloned().unwrap())
    );
}

#[test]
fn a_form_without_fields_asks_for_a_yes() {
    let form = Form::new("crm", "Go on?", &json!({"properties": {}})).unwrap();
    assert_eq!(typed(&form, &["y"]).0, FormAnswer::Accepted(Map::new()));
}
