use serde_json::json;

use super::*;

fn form(properties: &Value) -> Form {
    Form::new(
        "crm",
        "Who?",
        &json!({"properties": properties, "required": ["name"]}),
    )
    .unwrap()
}

fn values(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

#[test]
fn misfits_name_the_field_and_keep_the_value_to_themselves() {
    let form = form(&json!({
        "name": {"type": "string", "minLength": 3, "format": "email"},
        "age": {"type": "integer", "minimum": 18},
        "plan": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "maxItems": 1},
    }));
    let said = |value| {
        let found = misfits(&form, &values(&value));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        said(json!({"name": "ada@example.org", "age": 18, "plan": "a", "tags": ["x"]})),
        Vec::<String>::new()
    );
    let wrong = json!({"name": "canary", "age": "canary", "plan": "canary", "tags": ["canary", "x"], "more": "canary"});
    let wrong = said(wrong);
    assert!(!wrong.join("\n").contains("canary"), "{wrong:?}");
    insta::assert_snapshot!(wrong.join("\n"));
    assert_eq!(said(json!({})), ["name: must be filled in"]);
}

#[test]
fn an_answer_that_does_not_fit_goes_nowhere() {
    let form = form(&json!({"name": {"type": "string"}}));
    let accepted = FormAnswer::Accepted(values(&json!({"name": "Ada", "other": 1})));
    assert_eq!(
        fitting(&form, accepted),
        FormAnswer::Accepted(values(&json!({"name": "Ada"})))
    );
    let wrong = fitting(&form, FormAnswer::Accepted(values(&json!({"name": 1}))));
    assert!(matches!(wrong, FormAnswer::Unanswered { .. }), "{wrong:?}");
    assert_eq!(fitting(&form, FormAnswer::Declined), FormAnswer::Declined);
}

#[test]
fn a_schema_that_cannot_be_used_is_answered_at_once() {
    let asked = |schema: Value| raw_form_of("crm", &json!({"message": "?", "requestedSchema": schema}));
    let password = json!({"properties": {"code": {"type": "string", "format": "password"}}});
    assert_eq!(asked(password).unwrap().fields()[0].format, Some("password"));
    let bad = json!({"properties": {"code": {"type": "string", "minLength": "many"}}});
    assert!(matches!(asked(bad), Err(FormAnswer::Unanswered { .. })));
    assert!(matches!(asked(Value::Null), Err(FormAnswer::Unanswered { .. })));
    let page = json!({"mode": "url", "message": "?", "url": "https://example.org"});
    assert_eq!(raw_form_of("crm", &page), Err(FormAnswer::Declined));
}
