use serde_json::json;

use super::*;

fn refused(verb: Verb, arguments: &Value) -> String {
    Request::parse(verb, arguments).unwrap_err().to_text()
}

#[test]
fn dry_run_is_strictly_boolean() {
    let text = refused(
        Verb::Write,
        &json!({"address": "~/memory/a", "content": "x", "dryRun": "true"}),
    );
    assert_eq!(text, "write's 'dryRun' must be true or false, not a string.");
    let null = refused(
        Verb::Write,
        &json!({"address": "~/memory/a", "content": "x", "dryRun": null}),
    );
    assert_eq!(null, "write's 'dryRun' must be true or false, not null.");
}

#[test]
fn unknown_arguments_are_refused_with_the_nearest() {
    insta::assert_snapshot!(refused(Verb::Read, &json!({"adress": "~/self"})), @r"
    read has no argument 'adress'.
    Supported: address, format, options.
    Next: did you mean 'address'?
    ");
}

#[test]
fn unknown_options_are_refused_in_read_as_in_write() {
    insta::assert_snapshot!(refused(Verb::Read, &json!({"address": "~/self", "options": {"query": "x"}})), @"
    ~/self has no read option 'query'.
    Supported: lines, bytes, grep.
    ");
    insta::assert_snapshot!(refused(Verb::Write, &json!({"address": "~/memory/a", "options": {"title": "x"}})), @"
    ~/memory/<path> has no write option 'title'.
    Supported: delete, fromUrl, fromAttachment.
    ");
}

#[test]
fn delegate_takes_one_kind_of_work() {
    assert!(refused(Verb::Delegate, &json!({})).contains("needs something to run"));
    assert!(refused(Verb::Delegate, &json!({"brief": "a", "recipe": "b"})).contains("not several"));
    let parsed = Request::parse(
        Verb::Delegate,
        &json!({"recipe": "~/tools/recipes/a%20b", "await": false, "budget": {"wallSeconds": 1.5, "costUsd": 0.25}}),
    )
    .unwrap();
    let Request::Delegate(delegate) = parsed else {
        panic!("not a delegate")
    };
    assert_eq!(delegate.work, Work::Recipe("recipes/a b".to_owned()));
    assert!(!delegate.awaits);
    assert_eq!(delegate.budget.wall_ms, Some(1500));
    assert_eq!(delegate.budget.cost_micros, Some(250_000));
}

#[test]
fn a_plan_names_its_steps_and_refuses_doubles() {
    let Request::Plan(update) = Request::parse(
        Verb::Plan,
        &json!({"steps": ["first", {"id": "b", "status": "running"}]}),
    )
    .unwrap() else {
        panic!("not a plan")
    };
    insta::assert_snapshot!(update.plan.to_markdown(), @r"
    - [ ] `step-1` first (pending)
    - [~] `b` b (running)
    ");
    let doubled = json!({"steps": [{"id": "a"}, {"id": "a"}]});
    assert_eq!(refused(Verb::Plan, &doubled), "Two steps have the id 'a'.");
}

#[test]
fn call_accepts_a_tool_by_its_address() {
    let Request::Call(call) = Request::parse(
        Verb::Call,
        &json!({"tool": "~/tools/github/a%20b", "input": {"x": 1}}),
    )
    .unwrap() else {
        panic!("not a call")
    };
    assert_eq!(call.tool, "github/a b");
    assert!(refused(Verb::Call, &json!({"tool": "x", "input": "{}"})).contains("must be an object"));
}
