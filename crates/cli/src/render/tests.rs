use pentad_model::{CallId, Id, RefusalKind, RunId, ThreadId, Verb};

use super::*;

fn outcome(status: Status, text: &str) -> Outcome {
    Outcome {
        status,
        verb: Verb::Call,
        call: CallId(Id::from_bytes([1; 16])),
        thread: ThreadId(Id::from_bytes([2; 16])),
        run: None,
        text: text.to_owned(),
        omitted: None,
        value: None,
        parts: Vec::new(),
        refusal: None,
    }
}

fn shown(outcome: &Outcome, terminal: &Terminal) -> String {
    let Rendered { out, err, code } = render(outcome, terminal, Ending::Line);
    format!("--- stdout\n{out}--- stderr\n{err}--- {code}")
}

fn pipe() -> Terminal {
    Terminal::default()
}

fn watched() -> Terminal {
    Terminal {
        out_is_terminal: true,
        err_is_terminal: true,
        out_colors: true,
        err_colors: true,
        json: false,
    }
}

#[test]
fn data_goes_to_stdout_and_the_rest_to_stderr() {
    let mut result = outcome(Status::Ok, "hello\nworld");
    result.parts = vec![
        Part::Image {
            cid: "bafy".to_owned(),
            mime: "image/png".to_owned(),
            data: None,
        },
        Part::Link {
            address: "mcp:x/y".to_owned(),
            title: Some("A page".to_owned()),
        },
    ];
    result.omitted = Some(Omitted {
        shown_bytes: 11,
        total_bytes: 5000,
        total_lines: 99,
        address: "run:abc/output".to_owned(),
    });
    insta::assert_snapshot!(shown(&result, &pipe()), @r"
    --- stdout
    hello
    world
    [image image/png] attachment:bafy
    [A page] mcp:x/y
    --- stderr
    11 of 5000 bytes (99 lines) are shown. The rest: pentad read 'run:abc/output' --bytes 11-
    --- 0
    ");
}

#[test]
fn a_refusal_shows_what_is_supported_and_the_next_step() {
    let refusal = Refusal::new(RefusalKind::BadRequest, "x", "~/self has no read option 'x'.")
        .supported(["lines", "bytes"])
        .next_step("did you mean 'lines'?");
    let mut result = outcome(Status::Refused, &refusal.to_text());
    result.refusal = Some(refusal);
    insta::assert_snapshot!(shown(&result, &pipe()), @r"
    --- stdout
    --- stderr
    refused: ~/self has no read option 'x'.
    Supported: lines, bytes
    Next: did you mean 'lines'?
    --- 3
    ");
    insta::assert_snapshot!(shown(&result, &watched()).replace('\u{1b}', "ESC"), @r"
    --- stdout
    --- stderr
    ESC[1;33mrefusedESC[0m: ~/self has no read option 'x'.
    Supported: lines, bytes
    ESC[36mNext:ESC[0m did you mean 'lines'?
    --- 3
    ");
}

#[test]
fn waiting_names_the_command_that_grants() {
    let refusal = Refusal::new(
        RefusalKind::ApprovalRequired,
        "call:github/x",
        "A person must approve call:github/x.",
    )
    .next_step("read approval:01abcdefgh shows the question");
    let mut result = outcome(Status::Waiting, &refusal.to_text());
    result.refusal = Some(refusal);
    insta::assert_snapshot!(shown(&result, &pipe()), @r"
    --- stdout
    --- stderr
    waiting: A person must approve call:github/x.
    Next: read approval:01abcdefgh shows the question
    Next: pentad approvals grant 01abcdefgh, then repeat the command
    --- 4
    ");
}

#[test]
fn what_a_failed_tool_printed_stays_on_stdout() {
    let mut result = outcome(Status::Failed, "partial output");
    result.run = Some(RunId(Id::from_bytes([3; 16])));
    insta::assert_snapshot!(shown(&result, &pipe()), @r"
    --- stdout
    partial output
    --- stderr
    failed: pentad read run:0c1g60r30c1g60r30c1g60r30c/journal shows what happened
    --- 1
    ");
    result.refusal = Some(Refusal::new(
        RefusalKind::Timeout,
        "x",
        "The call limit of 60 s was reached.",
    ));
    insta::assert_snapshot!(shown(&result, &pipe()), @r"
    --- stdout
    partial output
    --- stderr
    failed: The call limit of 60 s was reached.
    --- 1
    ");
}

#[test]
fn foreign_control_characters_are_shown_on_a_terminal_only() {
    let evil = outcome(Status::Ok, "a\u{1b}]0;title\u{7}b\u{202e}c\n");
    assert_eq!(render(&evil, &pipe(), Ending::Line).out, evil.text);
    let seen = render(&evil, &watched(), Ending::Line).out;
    assert_eq!(seen, "a\\u{1b}]0;title\\u{7}b\\u{202e}c\n");
    let as_json = Terminal {
        json: true,
        ..watched()
    };
    let json = render(&evil, &as_json, Ending::Line).out;
    assert!(json.contains("\\u202e") && !json.contains('\u{202e}'));
    let back: Outcome = serde_json::from_str(&json).unwrap();
    assert_eq!(back, evil);
}

#[test]
fn exact_text_gets_no_line_break_in_a_pipe() {
    let result = outcome(Status::Ok, "x");
    assert_eq!(render(&result, &pipe(), Ending::Exact).out, "x");
    assert_eq!(render(&result, &pipe(), Ending::Line).out, "x\n");
    assert_eq!(render(&result, &watched(), Ending::Exact).out, "x\n");
    assert_eq!(render(&outcome(Status::Ok, ""), &pipe(), Ending::Line).out, "");
}

#[test]
fn json_is_the_outcome_that_every_adapter_returns() {
    let terminal = Terminal { json: true, ..pipe() };
    let result = outcome(Status::Waiting, "x");
    let Rendered { out, err, code } = render(&result, &terminal, Ending::Line);
    assert_eq!(serde_json::from_str::<Outcome>(&out).unwrap(), result);
    assert_eq!((err.as_str(), code, out.lines().count()), ("", 4, 1));
}
