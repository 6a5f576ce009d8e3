use std::path::Path;
use std::time::Duration;

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/h/config.toml"))
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn silence_means_the_defaults() {
    let config = parse("").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.http.port, 7455);
    assert!(config.http.bind.is_loopback());
    assert_eq!(
        (config.limits.view_bytes, config.limits.client_view_bytes),
        (8192, 32768)
    );
}

#[test]
fn every_section_is_understood() {
    let config = parse(
        r#"
        [http]
        port = 0
        hosts = ["pentad.lan"]
        [limits]
        call_seconds = "5m"
        [env]
        names = ["FOO"]
        [[roots]]
        path = "~/.pi/agent/recipes"
        format = "pi-actors"
        inherit_env = true
        [servers.github]
        command = "gh-mcp"
        args = ["--token", "${secret:github}"]
        env = { GH_HOST = "${env:GH_HOST}" }
        share = "thread"
        start_timeout = 30
        idle_timeout = "1.5h"
        max_copies = 4
        tools.list.read_only = true
        [servers.far]
        url = "https://x.example/mcp"
        headers = { Authorization = "Bearer ${cmd:pass x}" }
        [clients.claude-code]
        agent = "main"
        grants = ["call:github/", "read:file:/src"]
        [sources]
        source_allowlist = []
        [channels.report]
        kind = "file"
        target = "/reports"
        on = "failed"
        [providers.openai]
        key = "${secret:openai}"
        [projects."/src/x"]
        trusted_hash = "ab"
        workspace = "x"
        [call]
        strict_touch = true
        "#,
    )
    .unwrap();
    assert_eq!(config.limits.call_seconds.0, Duration::from_secs(300));
    let github = &config.servers["github"];
    assert_eq!(github.start_timeout, Some(Period::seconds(30)));
    assert_eq!(github.idle_timeout, Some(Period::seconds(5400)));
    assert_eq!(github.tools["list"].read_only, Some(true));
    assert_eq!(github.share, Some(Share::Thread));
    assert_eq!(github.max_copies.map(std::num::NonZeroUsize::get), Some(4));
    assert_eq!(config.roots[0].format, RootFormat::PiActors);
    assert_eq!(config.sources.source_allowlist, Some(vec![]));
    assert!(config.call.strict_touch);
    assert_eq!(
        config.clients[&"claude-code".parse().unwrap()]
            .grants
            .as_ref()
            .unwrap()
            .iter()
            .count(),
        2
    );
}

#[test]
fn unknown_keys_name_line_and_nearest() {
    insta::assert_snapshot!(error("[http]\nprot = 1\n"), @r"
    /h/config.toml:2: http.prot: there is no such key
    Next: did you mean 'port'? Supported here: bind, port, hosts, token
    ");
    insta::assert_snapshot!(error("[servers.x]\ncommand = \"a\"\ntools.y.readonly = true\n"), @r"
    /h/config.toml:3: servers.x.tools.y.readonly: there is no such key
    Next: did you mean 'read_only'? Supported here: read_only, destructive, idempotent, open_world
    ");
    insta::assert_snapshot!(error("[[roots]]\npath = \"a\"\n[[roots]]\npath = \"b\"\nformat = \"pi\"\n"), @r"
    /h/config.toml:5: roots.2.format: there is no such value
    Next: supported here: pentad, pi-actors
    ");
    insta::assert_snapshot!(error("[servrs.x]\ncommand = \"a\"\n"), @r"
    /h/config.toml:1: servrs: there is no such key
    Next: did you mean 'servers'? Supported here: http, limits, env, keeper, roots, servers, clients, sources, channels, providers, projects, call
    ");
    insta::assert_snapshot!(error("[channels.x]\nkind = \"file\"\n"), @r"
    /h/config.toml:1: channels.x: missing field `target`
    Next: change that value; the file was left as it is
    ");
}

#[test]
fn wrong_values_name_line_key_and_what_is_expected() {
    insta::assert_snapshot!(error("[http]\n\nport = \"x\"\n"), @r#"
    /h/config.toml:3: http.port: a string does not fit here: expected u16
    Next: change that value; the file was left as it is
    "#);
    insta::assert_snapshot!(error("[servers.a]\ncommand = \"x\"\nmax_copies = 0\n"), @r"
    /h/config.toml:3: servers.a.max_copies: invalid value: integer `0`, expected a nonzero usize
    Next: change that value; the file was left as it is
    ");
    insta::assert_snapshot!(error("[limits]\ncall_seconds = \"soon\"\n"), @r#"
    /h/config.toml:2: limits.call_seconds: 'soon' is no length of time: expected 30, "30s", "5m", "2h" or "250ms"
    Next: change that value; the file was left as it is
    "#);
    insta::assert_snapshot!(error("[servers.a]\ncommand = \"x ${HOME}\"\n"), @r"
    /h/config.toml:2: servers.a.command: '${HOME}' is no reference; supported: ${secret:NAME}, ${env:NAME}, ${cmd:COMMAND}; write $${ for a literal ${
    Next: change that value; the file was left as it is
    ");
    insta::assert_snapshot!(error("[clients.a]\ngrants = [\"eat:x\"]\n"), @r"
    /h/config.toml:2: clients.a.grants: 'eat:x' is no grant: expected call:SOURCE/[TOOL], read:ADDRESS, write:ADDRESS, delegate:TOOL, publish, execute or net:HOST
    Next: change that value; the file was left as it is
    ");
    insta::assert_snapshot!(error("a = \n"), @r"
    /h/config.toml:1: this is not TOML: string values must be quoted, expected literal string
    Next: repair that line; the file was left as it is
    ");
}

#[test]
fn contradictions_name_the_key() {
    insta::assert_snapshot!(error("[servers.ok]\ncommand = \"a\"\n\n[servers.library]\ncommand = \"a\"\n"), @r"
    /h/config.toml:4: servers.library: 'library' is reserved
    Next: choose another name
    ");
    insta::assert_snapshot!(error("[servers.Bad]\ncommand = \"a\"\n"), @r"
    /h/config.toml:1: servers.Bad: 'Bad' is no server name: expected 1 to 32 of a-z 0-9 _ -, first a letter or digit
    Next: choose another name
    ");
    insta::assert_snapshot!(error("[servers.a]\nargs = []\n"), @r#"
    /h/config.toml:1: servers.a: the server has neither command nor url
    Next: add command = "…" (with args = […]) or url = "https://…"
    "#);
    insta::assert_snapshot!(error("[limits]\nview_bytes = 10\n"), @r"
    /h/config.toml:2: limits.view_bytes: 10 is too small
    Next: give 1024 or more, or leave the key out
    ");
    insta::assert_snapshot!(error("[projects.\"src\"]\n"), @r"
    /h/config.toml:1: projects.src: a project is named by its absolute path
    Next: write the whole path
    ");
}

#[test]
fn s09_a_bind_beyond_loopback_needs_a_token() {
    insta::assert_snapshot!(error("[http]\nbind = \"0.0.0.0\"\n"), @r#"
    /h/config.toml:2: http.bind: 0.0.0.0 is reachable from other machines and no token is configured
    Next: add token = "${secret:http}" to [http] and run pentad secret set http, or bind 127.0.0.1
    "#);
    assert!(parse("[http]\nbind = \"0.0.0.0\"\ntoken = \"${secret:http}\"\n").is_ok());
    assert!(parse("[http]\nbind = \"::1\"\n").is_ok());
}

#[test]
fn periods_have_units() {
    for (text, millis) in [
        ("30", 30_000),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("250ms", 250),
    ] {
        assert_eq!(
            Period::parse(text).unwrap().0,
            Duration::from_millis(millis),
            "{text}"
        );
    }
    for text in ["", "s", "-1", "1y", "0", "1e9", "31d", "1.2.3"] {
        assert!(Period::parse(text).is_err(), "{text}");
    }
    assert_eq!(Period::seconds(90).to_string(), "90s");
    assert_eq!(Period::seconds(300).to_string(), "5m");
}
