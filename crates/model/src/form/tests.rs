use proptest::prelude::*;
use serde_json::json;

use super::*;

fn form(properties: &Value) -> Result<Form, FormError> {
    Form::new(
        "crm",
        "Who?",
        &json!({"type": "object", "properties": properties, "required": ["a", "x", 1]}),
    )
}

#[test]
fn every_kind_of_field_is_read() {
    let form = form(&json!({
        "z": {"type": "string", "format": "password", "title": "Z\u{1b}[31m", "pattern": "^x"},
        "a": {"type": "number", "minimum": 1, "default": 2.5},
        "i": {"type": "integer"},
        "f": {"type": "boolean", "default": true},
        "c": {"type": "string", "enum": ["x", "y"], "enumNames": ["The X"]},
        "t": {"type": "string", "oneOf": [{"const": "p", "title": "Pro\u{202e}"}, {"const": "q"}]},
        "m": {"type": "array", "items": {"type": "string", "enum": ["r"]}, "maxItems": 1},
        "n": {"type": "array", "items": {"anyOf": [{"const": "s", "title": "S"}]}},
    }))
    .unwrap();
    assert_eq!(form.names(), "z, a, i, f, c, t, m, n");
    assert_eq!(form.schema["required"], json!(["a"]));
    assert_eq!(form.schema["properties"]["z"].get("pattern"), None);
    let fields = form.fields();
    let choice = |value, title| Choice { value, title };
    let kinds: Vec<Kind<'_>> = fields.iter().map(|field| field.kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            Kind::Text,
            Kind::Number,
            Kind::Integer,
            Kind::Flag,
            Kind::Choice(vec![choice("x", Some("The X")), choice("y", None)]),
            Kind::Choice(vec![choice("p", Some("Pro\\u{202e}")), choice("q", Some("q"))]),
            Kind::Choices(vec![choice("r", None)]),
            Kind::Choices(vec![choice("s", Some("S"))]),
        ]
    );
    assert_eq!(
        (fields[0].title, fields[0].format),
        (Some("Z\\u{1b}[31m"), Some("password"))
    );
    assert!(fields[1].required && !fields[0].required);
    assert_eq!(fields[1].default, Some(&json!(2.5)));
}

#[test]
fn what_no_person_can_be_shown_is_refused() {
    for properties in [
        json!({"o": {"type": "object", "properties": {}}}),
        json!({"l": {"type": "array", "items": {"type": "string"}}}),
        json!({"u": {}}),
        json!({"u": true}),
        json!({"e": {"type": "string", "enum": []}}),
        json!({"e": {"type": "string", "enum": [1]}}),
        json!({"e": {"type": "string", "enum": ["x".repeat(300)]}}),
        json!({"bell\u{7}": {"type": "string"}}),
        json!({"": {"type": "string"}}),
    ] {
        assert!(
            matches!(form(&properties), Err(FormError::Field { .. })),
            "{properties}"
        );
    }
    let many: Map<String, Value> = (0..65)
        .map(|n| (format!("f{n}"), json!({"type": "string"})))
        .collect();
    assert_eq!(form(&Value::Object(many)), Err(FormError::TooMany(65)));
    assert_eq!(
        Form::new("crm", "", &json!({"type": "object"})),
        Err(FormError::NoObject)
    );
}

#[test]
fn an_answer_prints_no_values() {
    let values = json!({"code": "canary"}).as_object().cloned().unwrap();
    assert_eq!(
        format!("{:?}", FormAnswer::Accepted(values)),
        "Accepted([\"code\"])"
    );
}

proptest! {
    #[test]
    fn no_schema_makes_reading_fail_in_another_way(text in "\\PC{0,60}", key in "[a-z]{1,10}", n in 0_i64..9) {
        for value in [json!(text), json!(n), json!([text]), json!({key.clone(): text})] {
            for keyword in KEYWORDS {
                let asked = json!({"type": "string", keyword: value});
                if let Ok(form) = form(&json!({"a": asked})) {
                    prop_assert_eq!(form.fields().len(), 1);
                }
            }
        }
        let shown = Form::new("crm", &text, &json!({"properties": {}})).unwrap();
        prop_assert_eq!(shown.fields().len(), 0);
    }
}
