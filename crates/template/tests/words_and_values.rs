//! Values reach a program exactly as they were sent, and parsers never panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

use pentad_template::{
    CommandLine, Condition, Declaration, ExpandError, Interface, MAX_ARGUMENT_BYTES, Pattern, Severity, Site,
    Template, Values, explain, split_declarations, split_words, substitute,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn values(value: Value) -> Values {
    value.as_object().unwrap().clone()
}

fn hostile() -> Vec<String> {
    let seeds = [
        "",
        " ",
        "a b",
        "  lead",
        "trail  ",
        "\t",
        "\n",
        "line\nline",
        "\r\n",
        "'",
        "\"",
        "'\"'",
        "\\",
        "\\\\",
        "\\'",
        "`id`",
        "$(id)",
        "${HOME}",
        "$HOME",
        "; rm -rf /",
        "&& rm -rf /",
        "| cat",
        "> /etc/passwd",
        "< in",
        "#comment",
        "*",
        "?",
        "[a-z]",
        "~",
        "~root",
        "!",
        "!!",
        "-rf",
        "--",
        "-",
        "=",
        "a=b",
        "{",
        "}",
        "{}",
        "{{",
        "}}",
        "{{x}}",
        "{x",
        "x}",
        "%s",
        "%n",
        "%00",
        "\u{0}x".trim_start_matches('\u{0}'),
        "é",
        "e\u{301}",
        "日本語",
        "🙂",
        "\u{202e}abc",
        "\u{feff}",
        "\u{200b}",
        "\u{2028}",
        "\u{7f}",
        "\u{1b}[31m",
        "\u{8}",
        "\"; echo INJECTED",
        "' ; echo INJECTED #",
        "{{ env.HOME }}",
        "{% raw %}",
        "<script>",
        "]]>",
        "--- ---",
        "---",
        "null",
        "true",
        "NaN",
        "1e309",
        "../../etc",
        "C:\\dir\\file",
        "a\\nb",
        "{\"json\": 1}",
        "[1,2]",
        "{unknown}",
        "{a b}",
        "{1",
        "{=}",
        "{:int}",
        "{?a:b",
    ];
    let mut corpus: Vec<String> = seeds.iter().map(|seed| (*seed).to_owned()).collect();
    for seed in seeds {
        corpus.push(format!("{seed}{seed}"));
        corpus.push(format!("x{seed} y"));
    }
    corpus
}

#[test]
fn t01_t03_t04_hostile_values_arrive_as_one_unchanged_argument() {
    let corpus = hostile();
    assert!(corpus.len() >= 200, "{}", corpus.len());
    let line = CommandLine::read("tool {v} --flag={v} 'quoted {v}' \"{v:string}\" end");
    for value in corpus {
        let words = line.expand(&values(json!({"v": value}))).unwrap();
        let argv = Site::default().argv(words).unwrap();
        let mut expected = vec!["tool".to_owned(), value.clone(), format!("--flag={value}")];
        expected.extend([format!("quoted {value}"), value.clone(), "end".to_owned()]);
        expected.retain(|word| !word.is_empty());
        assert_eq!(argv, expected);
    }
}

#[test]
fn a_nul_character_is_refused_with_the_argument_named() {
    let template = Template::command("tool --name {v}").template.unwrap();
    let found = explain(&template, &values(json!({"v": "a\0b"})), &Site::default());
    let error = found[0].argv.clone().unwrap_err();
    assert_eq!(
        error,
        ExpandError::Nul {
            command: "tool".to_owned(),
            index: 2
        }
    );
    insta::assert_snapshot!(error, @"Argument 2 of tool contains a NUL character, which cannot be passed to a program. Remove it, or pass the data by stdin or as a file.");
}

#[test]
fn o11_an_argument_that_is_too_long_is_refused_with_the_limit() {
    let line = CommandLine::read("tool {v}");
    let argv = |length: usize| {
        let words = line.expand(&values(json!({"v": "x".repeat(length)}))).unwrap();
        Site::default().argv(words)
    };
    assert!(argv(MAX_ARGUMENT_BYTES).is_ok());
    insta::assert_snapshot!(argv(MAX_ARGUMENT_BYTES + 1).unwrap_err(), @"Argument 1 of tool has 131072 bytes; the system takes at most 131071 in one argument. Pass long input by stdin or as a file.");
    let many = CommandLine::read(&format!("tool {}", "{v} ".repeat(9)));
    let words = many.expand(&values(json!({"v": "x".repeat(120_000)}))).unwrap();
    assert!(matches!(
        Site::default().argv(words),
        Err(ExpandError::ArgumentsTooLong { .. })
    ));
}

#[test]
fn values_that_refer_to_each_other_cannot_take_for_ever() {
    let wide = |name: &str| format!("{{{name}}}").repeat(200);
    let bomb = values(json!({"a": wide("b"), "b": wide("c"), "c": wide("d"), "d": ""}));
    assert!(matches!(
        substitute("{a}", &bomb),
        Err(ExpandError::TooLarge { .. })
    ));
    let deep = format!("{{{}1{}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(
        substitute(&deep, &Values::new()),
        Err(ExpandError::Expression { .. })
    ));
}

#[test]
fn control_fields_count_as_arguments_and_a_fallback_makes_one_optional() {
    let template = json!({
        "parallel": true, "concurrency": "{workers:int=2}", "min_successful": "{least}",
        "template": ["tool {a} {b??none} {recipe_dir}/x", {"when": "{c}", "template": "other {c=1}"}]
    });
    let interface = Interface::derive(&Template::parse(&template).template.unwrap());
    let told: Vec<(&str, bool)> = interface
        .parameters
        .iter()
        .map(|p| (p.name.as_str(), p.required))
        .collect();
    assert_eq!(
        told,
        [
            ("a", true),
            ("b", false),
            ("c", false),
            ("workers", false),
            ("least", true)
        ]
    );
}

#[test]
fn a_bad_call_gets_a_sample_of_a_good_one() {
    let template = json!({
        "args": ["file:path", "mode:enum(fast,good)", "n:int", "verbose:bool=false", "tags:array=[]", "q:number"],
        "template": "tool {file} {mode} {n=3} {verbose} {tags} {q=1.5}"
    });
    let interface = Interface::derive(&Template::parse(&template).template.unwrap());
    let error = interface
        .accept("shrink", &json!({"file": "a", "mode": "best"}))
        .unwrap_err();
    assert_eq!(error.argument.as_deref(), Some("mode"));
    insta::assert_snapshot!(error, @r#"
    Invalid arguments for tool "shrink": Argument mode must be one of: fast, good.

    Expected call shape for shrink:
    {
      "file": "./file",
      "mode": "fast",
      "n": 3,
      "verbose": false,
      "tags": [],
      "q": 1.5
    }
    Required: file, mode
    Optional: n, verbose, tags, q
    "#);
    let unknown = interface
        .accept("shrink", &json!({"file": "a", "mode": "fast", "modes": 1}))
        .unwrap_err();
    assert!(
        unknown
            .text
            .starts_with("Invalid arguments for tool \"shrink\": Unknown argument modes.")
    );
    let missing = interface.accept("shrink", &json!({"mode": "fast"})).unwrap_err();
    assert!(missing.text.contains("Missing argument file."));
    insta::assert_json_snapshot!(interface.input_schema(), @r#"
    {
      "type": "object",
      "properties": {
        "file": {
          "type": "string"
        },
        "mode": {
          "type": "string",
          "enum": [
            "fast",
            "good"
          ]
        },
        "n": {
          "type": "integer",
          "default": 3
        },
        "verbose": {
          "type": "boolean",
          "default": false
        },
        "tags": {
          "type": "array",
          "items": {},
          "default": []
        },
        "q": {
          "type": "number",
          "default": 1.5
        }
      },
      "required": [
        "file",
        "mode"
      ],
      "additionalProperties": false
    }
    "#);
}

#[test]
fn nothing_in_a_document_is_dropped_in_silence() {
    let parsed = Template::parse(&json!({
        "parallel": "yes", "retry": 0, "failure": "maybe", "cwd": "/x", "colour": 1, "label": 5, "args": [{}],
        "template": ["a", ["b"], 7, {"template": "c", "recover": "d", "parallel": true}]
    }));
    assert!(parsed.template.is_none());
    let lines: Vec<String> = parsed
        .diagnostics
        .iter()
        .map(|d| format!("{:?} {}: {}", d.severity, d.place, d.message))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    let warned = Template::parse(&json!({"args": ["a:weird", "a"], "colour": 1, "template": "x {a}"}));
    assert!(warned.template.is_some());
    assert!(
        warned.diagnostics.iter().all(|d| d.severity == Severity::Warning) && warned.diagnostics.len() == 3
    );
}

#[test]
fn an_explanation_lists_every_command_with_its_place() {
    let template = Template::parse(&json!({
        "defaults": {"lang": "en"},
        "template": [
            "fetch {url}",
            {"repeat": 2, "parallel": true, "retry": 2, "recover": "clean {index}", "template": "part {index} {lang}"},
            {"when": "publish", "timeout": 5000, "template": "push '{missing}'"}
        ]
    }))
    .template
    .unwrap();
    let found = explain(
        &template,
        &values(json!({"url": "http://x/?a=1 b"})),
        &Site::default(),
    );
    let lines: Vec<String> = found
        .iter()
        .map(|e| {
            format!(
                "{} | {} | reads {} | skipped {}",
                e.place,
                e.command(),
                e.reads_previous,
                e.skipped
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

proptest! {
    #[test]
    fn splitting_and_filling_never_panic(text in "\\PC*", value in "\\PC*", braces in "[{}a?:=\\[\\]0-9()+*/%_!., -]{0,24}") {
        let words = split_words(&text);
        prop_assert!(words.iter().all(|word| word.literally_empty == word.text.is_empty()));
        let known = values(json!({"a": value, "_": [1, "x"], "a0": braces.clone()}));
        drop(substitute(&text, &known));
        drop(substitute(&braces, &known));
        drop(Pattern::read(&braces).fill(&known, "x"));
        let _ = Condition::read(&braces).holds(&known);
        drop(Declaration::read(&braces).text());
        drop(split_declarations(&braces));
    }

    #[test]
    fn a_value_without_braces_is_one_argument(value in "[^{}\u{0}]+") {
        let line = CommandLine::read("tool {v}");
        prop_assert_eq!(line.expand(&values(json!({"v": value.clone()}))).unwrap(), vec!["tool".to_owned(), value]);
    }

    #[test]
    fn text_without_braces_is_unchanged(text in "[^{}]*") {
        prop_assert_eq!(substitute(&text, &Values::new()).unwrap(), text);
    }
}
