use pentad_model::tool::ToolDocument;
use serde_json::json;

use super::*;
use crate::testing::with_input;

fn check_input(schema: Value, input: Value) -> Vec<String> {
    let catalog = Catalog::new(Vec::new());
    let document = with_input("s", "t", "Text.", schema);
    let Value::Object(input) = input else {
        panic!("no object")
    };
    catalog
        .validate(&document, &input)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn problem(schema: Value) -> Option<String> {
    let catalog = Catalog::new(Vec::new());
    let document: ToolDocument = with_input("s", "t", "Text.", schema);
    let diagnostic = catalog.schema_diagnostic(&document)?;
    assert!(catalog.validate(&document, &Map::new()).is_empty());
    Some(diagnostic.message)
}

#[test]
fn n06_references_alternatives_and_missing_types_are_checked() {
    let schema = json!({
        "properties": {
            "tree": {"$ref": "#/$defs/node"},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]}
        },
        "required": ["tree"],
        "additionalProperties": false,
        "$defs": {"node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}, "n": {"type": "integer"}}}}
    });
    assert!(
        check_input(
            schema.clone(),
            json!({"tree": {"children": [{"n": 1}]}, "when": null})
        )
        .is_empty()
    );
    assert_eq!(
        check_input(schema, json!({"tree": {"children": [{"n": "x"}]}, "more": 1})),
        [
            "/tree/children/0/n: \"x\" is not of type \"integer\"",
            "(input): Additional properties are not allowed ('more' was unexpected)",
        ]
    );
}

#[test]
fn both_drafts_mean_what_they_say() {
    let tuple = json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"p": {"items": [{"type": "string"}]}}});
    assert_eq!(check_input(tuple, json!({"p": [1]})).len(), 1);
    let tuple = json!({"properties": {"p": {"prefixItems": [{"type": "string"}]}}});
    assert_eq!(check_input(tuple.clone(), json!({"p": [1]})).len(), 1);
    let mut named = tuple;
    named["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    assert_eq!(check_input(named, json!({"p": [1]})).len(), 1);
}

#[test]
fn a_remote_reference_is_not_fetched_and_the_tool_judges() {
    let message = problem(json!({"properties": {"x": {"$ref": "https://example.org/schema.json"}}})).unwrap();
    assert!(
        message.contains("https://example.org/schema.json") && message.contains("not fetched"),
        "{message}"
    );
    assert!(
        problem(json!({"$ref": "file:///etc/passwd"}))
            .unwrap()
            .contains("not fetched")
    );
}

#[test]
fn an_invalid_schema_accepts_any_object_with_a_diagnostic() {
    for schema in [
        json!({"type": "objekt"}),
        json!({"properties": 3}),
        json!({"properties": {"x": {"pattern": "("}}}),
        json!("text"),
        json!({"$ref": "#/$defs/missing"}),
        json!({"description": "x".repeat(MAX_SCHEMA_BYTES)}),
    ] {
        let message =
            problem(schema.clone()).unwrap_or_else(|| panic!("{}", excerpt(&schema.to_string(), 80)));
        assert!(
            message.len() < 600 && message.contains("the tool judges"),
            "{message}"
        );
    }
    assert_eq!(problem(json!({"type": "object"})), None);
    assert_eq!(problem(json!(true)), None);
}

#[test]
fn errors_are_bounded_in_number_and_length() {
    let schema = json!({"additionalProperties": {"type": "integer"}});
    let input: Map<String, Value> = (0..100)
        .map(|i| {
            (
                format!("{i}{}", "k".repeat(1_000)),
                json!("v\u{202e}".repeat(10_000)),
            )
        })
        .collect();
    let catalog = Catalog::new(Vec::new());
    let errors = catalog.validate(&with_input("s", "t", "Text.", schema), &input);
    assert_eq!(errors.len(), MAX_ERRORS);
    for error in errors {
        assert!(error.path.len() <= MAX_PATH_BYTES && error.message.len() <= MAX_MESSAGE_BYTES);
        assert!(!error.message.contains('\u{202e}'));
    }
}

#[test]
fn a_pattern_that_never_ends_ends() {
    let schema = json!({"properties": {"x": {"type": "string", "pattern": "^(a+)+(?=b)$"}}});
    assert_eq!(
        check_input(schema, json!({"x": format!("{}c", "a".repeat(64))})).len(),
        1
    );
}

#[test]
fn schemas_are_compiled_once_per_content() {
    let validators = Validators::default();
    let first = validators.take(&json!({"type": "object", "title": "x"}));
    let again = validators.take(&json!({"title": "x", "type": "object"}));
    assert!(Arc::ptr_eq(&first, &again));
    for i in 0..MAX_KEPT + 5 {
        validators.take(&json!({ "title": i }));
    }
    assert!(validators.0.lock().unwrap().len() <= MAX_KEPT);
}
