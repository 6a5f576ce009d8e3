use proptest::prelude::*;

use super::*;

#[test]
fn every_form_parses_and_prints_back() {
    for text in [
        "~/memory/",
        "~/memory/notes/today.md",
        "~/memory/notes/",
        "~/tools/",
        "~/tools/github/create_issue",
        "~/tools/a%20b%25",
        "~/triggers/",
        "~/triggers/daily",
        "~/channels/report",
        "~/self",
        "thread:",
        "thread:0123456789abcdefghjkmnpqrs",
        "thread:abcdefgh",
        "run:",
        "run:build-7",
        "run:build-7/journal",
        "run:build-7/why",
        "run:abcdefgh/output",
        "run:x/artifacts",
        "run:x/artifacts/report.pdf",
        "approval:",
        "activity:",
        "hm://z6Mk/team",
        "ipfs://bafy/x",
        "https://example.org/a?b=c#d",
        "file:src/main.rs",
        "file:/etc/hosts",
        "mcp:everything/demo://resource/1",
        "mcp:everything/",
        "mcp:everything/prompts/summary of a/b",
        "agent:main",
    ] {
        let address = Address::parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message));
        assert_eq!(address.to_string(), text);
        assert_eq!(Address::parse(&address.to_string()).unwrap(), address);
    }
}

#[test]
fn other_spellings_mean_the_same_address() {
    for (text, same) in [
        ("  ~/memory ", "~/memory/"),
        ("~/memory/./a//b", "~/memory/a/b"),
        ("~/memory/a\\b", "~/memory/a/b"),
        ("~/tools", "~/tools/"),
        ("~/self/", "~/self"),
        ("file:///etc/host%20s", "file:/etc/host s"),
    ] {
        assert_eq!(Address::parse(text).unwrap().to_string(), same);
    }
}

#[test]
fn unknown_addresses_are_refused_with_the_supported_forms() {
    let refusal = Address::parse("/etc/passwd").unwrap_err();
    insta::assert_snapshot!(refusal.to_text(), @r"
    '/etc/passwd' is no address of this space.
    Supported: ~/memory/<path>, ~/tools/[<source>/]<name>, ~/triggers/<name>, ~/channels/<name>, ~/self, thread:[<id>], run:[<id|name>][/why|/journal|/output|/artifacts[/<name>]], approval:[<id>], activity:, attachment:<cid>, hm://…, ipfs://…, https://…, file:<path>, mcp:<server>/<uri>, agent:<name>.
    Next: for a file on disk write file:/etc/passwd
    ");
    for text in [
        "",
        "~",
        "~/",
        "~/etc/passwd",
        "~/memory/../x",
        "thread:short",
        "run:../x",
        "run:x/else",
        "gopher://x",
        "file:",
    ] {
        assert!(Address::parse(text).is_err(), "{text}");
    }
    for text in [
        "https://user:pw@example.org/",
        "https://",
        "mcp:x",
        "attachment:nocid",
        "activity:x",
        "file://host/x",
    ] {
        assert!(Address::parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics_and_accepted_addresses_are_stable(text in ".{0,80}") {
        if let Ok(address) = Address::parse(&text) {
            let printed = address.to_string();
            prop_assert_eq!(Address::parse(&printed).map_err(|e| e.message), Ok(address));
        }
    }

    #[test]
    fn n02_any_tool_name_survives_its_address(name in "[^\\p{Cc}]{1,64}|[a-z/._-]{1,128}") {
        prop_assume!(!name.trim().is_empty());
        let address = Address::Tools(Some(name.clone()));
        prop_assert_eq!(Address::parse(&address.to_string()).map_err(|e| e.message), Ok(address));
    }
}
