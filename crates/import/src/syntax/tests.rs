use proptest::prelude::*;
use serde_json::json;

use super::*;

fn edit(syntax: Syntax, text: &str, path: &[&str], remove: &[&str]) -> Result<String, SyntaxError> {
    let edit = MapEdit {
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        remove: remove.iter().map(|name| (*name).to_owned()).collect(),
        insert: Some(("pentad".to_owned(), json!({"command": "pentad", "args": ["mcp"]}))),
    };
    syntax.edit(text, &[edit])
}

#[test]
fn comments_and_order_stay_in_json() {
    let text = r#"{
    // who I am
    "theme": "dark", // really
    "mcpServers": {
        // kept, since it is nobody's
        "a": {"command": "x"}, /* about a */
        "keep": {"url": "https://example.org"},
        "b": {
            // goes with b
            "command": "y"
        } // last
    },
    "tail": [1, 2,],
}
"#;
    insta::assert_snapshot!(edit(Syntax::Jsonc, text, &["mcpServers"], &["a", "b"]).unwrap(), @r#"
    {
        // who I am
        "theme": "dark", // really
        "mcpServers": {
            // kept, since it is nobody's
            "pentad": {
                "command": "pentad",
                "args": [
                    "mcp"
                ]
            }, /* about a */
            "keep": {"url": "https://example.org"}
             // last
        },
        "tail": [1, 2,],
    }
    "#);
    let one_line = r#"{"mcpServers":{"a":{},"b":{},"c":{}},"x":1}"#;
    assert_eq!(
        edit(Syntax::Jsonc, one_line, &["mcpServers"], &["b", "c"]).unwrap(),
        r#"{"mcpServers":{"a":{},"pentad": {"command":"pentad","args":["mcp"]}},"x":1}"#
    );
    let windows = one_line.replace(',', ",\r\n");
    let changed = edit(Syntax::Jsonc, &windows, &["mcpServers"], &["a"]).unwrap();
    assert_eq!(changed.matches('\n').count(), changed.matches("\r\n").count());
}

#[test]
fn comments_and_order_stay_in_toml() {
    let text = r#"# mine
model = "gpt" # the good one

# about a
[mcp_servers.a] # same line
command = "npx"
# inside a
args = [
  "x",
]

[mcp_servers.a.env]
K = "v"

# about keep
[mcp_servers.keep]
command = "z"

[mcp_servers.b]
url = "https://example.org"

[other]
x = 1
"#;
    insta::assert_snapshot!(edit(Syntax::Toml, text, &["mcp_servers"], &["a", "b"]).unwrap(), @r#"
    # mine
    model = "gpt" # the good one

    # about a
    [mcp_servers.pentad]
    command = "pentad"
    args = ["mcp"]

    # about keep
    [mcp_servers.keep]
    command = "z"

    [other]
    x = 1
    "#);
    for (text, changed) in [
        (
            "[mcp_servers]\na = { command = 'x' } # c\nb.command = 'y'\nb.args = []\nk.command = 'z'\n",
            "[mcp_servers]\npentad = { command = \"pentad\", args = [\"mcp\"] }\nk.command = 'z'\n",
        ),
        (
            "mcp_servers.a.command = 'x'\nmcp_servers.b.command = 'y'\nz = 1\n",
            "mcp_servers.pentad = { command = \"pentad\", args = [\"mcp\"] }\nz = 1\n",
        ),
        (
            "mcp_servers = { a = { command = 'x' }, b = { command = 'y' } } # c\n",
            "mcp_servers = { pentad = { command = \"pentad\", args = [\"mcp\"] } } # c\n",
        ),
    ] {
        assert_eq!(
            edit(Syntax::Toml, text, &["mcp_servers"], &["a", "b"]).unwrap(),
            changed
        );
    }
}

#[test]
fn comments_and_order_stay_in_yaml() {
    let text = "\
# mine
GOOSE_MODEL: x  # why
extensions:
  # before a
  a:
    enabled: true
    args:
    - -y
    - '# no comment'
    description: |
      # no comment either

      text

  # before keep
  keep:
    type: builtin
  \"b\":
    cmd: y
    # in b
# at the end
other: [1]
";
    insta::assert_snapshot!(edit(Syntax::Yaml, text, &["extensions"], &["a", "b"]).unwrap(), @r"
    # mine
    GOOSE_MODEL: x  # why
    extensions:
      # before a
      pentad:
        command: pentad
        args:
        - mcp

      # before keep
      keep:
        type: builtin
    # at the end
    other: [1]
    ");
    let flow = "extensions: {a: {cmd: x}, b: {cmd: y}}\n";
    assert!(edit(Syntax::Yaml, flow, &["extensions"], &["a", "b"]).is_err());
    let shared = "extensions:\n  a: &one\n    cmd: x\n  b:\n    cmd: y\n  c: *one\n";
    assert!(edit(Syntax::Yaml, shared, &["extensions"], &["a", "b"]).is_err());
}

#[test]
fn f03_what_is_not_valid_is_refused_without_its_text() {
    for (syntax, text, line) in [
        (Syntax::Jsonc, "{\n \"k\": canary\n}", 2),
        (Syntax::Jsonc, "{\"k\": \"canary", 1),
        (Syntax::Jsonc, "{\"k\" 1}", 1),
        (Syntax::Toml, "a = 1\nb = canary\n", 2),
        (Syntax::Toml, "a = 1\na = \"canary\"\n", 2),
        (Syntax::Yaml, "a: 1\na: canary\n", 2),
        (Syntax::Yaml, "a: [canary\nb: 1\n", 2),
    ] {
        let error = syntax.read(text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains(&format!("line {line} ")), "{shown}");
    }
}

fn a_name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_-]{0,8}"
}

/// Some names, and which of them go; at least one.
fn names() -> impl Strategy<Value = Vec<(String, bool)>> {
    proptest::collection::btree_map(a_name(), any::<bool>(), 1..6)
        .prop_map(|map| map.into_iter().collect::<Vec<_>>())
        .prop_filter("one goes", |names| {
            names.iter().any(|(name, gone)| *gone && name != "pentad")
        })
        .prop_filter("ours is not there", |names| {
            names.iter().all(|(name, _)| name != "pentad")
        })
}

/// Checks that what stands before `first` and after `last` is the same, byte for byte.
fn outside_is_untouched(text: &str, changed: &str, first: &str, last: &str) {
    let head = text.split_once(first).unwrap().0;
    let tail = text.rsplit_once(last).unwrap().1;
    assert!(changed.starts_with(head), "{changed}");
    assert!(
        changed.ends_with(&format!("{last}{tail}")),
        "{changed}\n---\n{tail}"
    );
}

/// Checks that taking the change back gives the old meaning.
fn comes_back(syntax: Syntax, text: &str, changed: &str, path: &str, removed: &[&str]) {
    let change = MapRestore {
        path: vec![path.to_owned()],
        removed: removed.iter().map(|name| (*name).to_owned()).collect(),
        entry: Some("pentad".to_owned()),
    };
    let restored = syntax.restore(changed, text, &[change]).unwrap();
    assert_eq!(syntax.read(&restored), syntax.read(text), "{restored}");
}

fn removed(names: &[(String, bool)]) -> Vec<&str> {
    names
        .iter()
        .filter(|(_, gone)| *gone)
        .map(|(name, _)| name.as_str())
        .collect()
}

proptest! {
    #[test]
    fn only_entries_change_in_json(
        names in names(),
        gap in "( |\n|\n  |\r\n|\t| /\\* c \\*/ |// c\n){0,3}",
        trailing in any::<bool>(),
    ) {
        let entries: Vec<String> = names
            .iter()
            .map(|(name, _)| format!("\"{name}\":{gap}{{\"command\":{gap}\"{name}<{name}>\"}}"))
            .collect();
        let body = entries.join(&format!("{gap},{gap}"));
        let comma = if trailing { "," } else { "" };
        let text = format!("{{{gap}\"h\": 1,{gap}\"mcpServers\"{gap}: {{{gap}{body}{comma}{gap}}}, \"t\": [\"é\"]{gap}}}\n");
        let gone = removed(&names);
        let changed = edit(Syntax::Jsonc, &text, &["mcpServers"], &gone).unwrap();
        for (name, gone) in &names {
            prop_assert_eq!(changed.contains(&format!("{name}<{name}>")), !gone);
        }
        prop_assert_eq!(
            changed.matches("/*").count() + changed.matches("//").count()
                + gone.len() * (gap.matches("/*").count() + gap.matches("//").count()) * 2,
            text.matches("/*").count() + text.matches("//").count()
        );
        outside_is_untouched(&text, &changed, "\"mcpServers\"", "\"t\": [");
        comes_back(Syntax::Jsonc, &text, &changed, "mcpServers", &gone);
    }

    #[test]
    fn only_entries_change_in_toml(names in names(), crlf in any::<bool>(), env in any::<bool>()) {
        let mut text = "# top\nmodel = 'é'\n\n".to_owned();
        for (name, _) in &names {
            text.push_str(&format!("# about {name}\n[mcp_servers.{name}]\ncommand = '{name}<{name}>'\n"));
            if env {
                text.push_str(&format!("\n[mcp_servers.{name}.env]\nA = 'b' # c\n"));
            }
        }
        text.push_str("# last\n[zz]\nx = 1\n");
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        let gone = removed(&names);
        let changed = edit(Syntax::Toml, &text, &["mcp_servers"], &gone).unwrap();
        for (name, gone) in &names {
            let about = format!("# about {name}");
            prop_assert_eq!(changed.contains(&format!("{name}<{name}>")), !gone);
            prop_assert!(changed.contains(&about), "a comment went");
        }
        prop_assert_eq!(changed.matches('\n').count() - changed.matches("\r\n").count(), if crlf { 0 } else { changed.matches('\n').count() });
        outside_is_untouched(&text, &changed, &format!("[mcp_servers.{}]", gone[0]), "# last");
        comes_back(Syntax::Toml, &text, &changed, "mcp_servers", &gone);
    }

    #[test]
    fn only_entries_change_in_yaml(names in names(), indent in 1..5_usize, blank in any::<bool>()) {
        let pad = " ".repeat(indent);
        let mut text = "A: é # x\nextensions:\n".to_owned();
        for (name, _) in &names {
            text.push_str(&format!("{pad}# about {name}\n{pad}{name}:\n{pad}{pad}cmd: {name}<{name}>\n{pad}{pad}args:\n{pad}{pad}- x\n"));
            if blank {
                text.push('\n');
            }
        }
        text.push_str("# last\nZ:\n- 1\n");
        let gone = removed(&names);
        let changed = edit(Syntax::Yaml, &text, &["extensions"], &gone).unwrap();
        for (name, gone) in &names {
            let about = format!("# about {name}\n");
            prop_assert_eq!(changed.contains(&format!("{name}<{name}>")), !gone);
            prop_assert!(changed.contains(&about), "a comment went");
        }
        outside_is_untouched(&text, &changed, &format!("{pad}{}:", gone[0]), "# last");
        comes_back(Syntax::Yaml, &text, &changed, "extensions", &gone);
    }

    #[test]
    fn no_text_panics(text in "[{}\\[\\]\",:#=\n a-c/*-]{0,60}", which in 0..3) {
        let syntax = [Syntax::Jsonc, Syntax::Toml, Syntax::Yaml][usize::try_from(which).unwrap()];
        let _ = syntax.read(&text);
        let _ = edit(syntax, &text, &["a"], &["b"]);
    }
}
