//! The one parser of addresses.

use url::Url;

use super::{Address, FORMS, MAX_ADDRESS_BYTES, MemoryPath, RunName, RunPart, decode_tool_name};
use crate::actor::Name;
use crate::id::IdEnding;
use crate::refusal::{Refusal, RefusalKind};
use crate::text::excerpt;

pub(super) fn parse(text: &str) -> Result<Address, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Err(refuse("", "An address is required.").supported(forms()));
    }
    if text.len() > MAX_ADDRESS_BYTES {
        let message = format!(
            "This address has {} bytes; the limit is {MAX_ADDRESS_BYTES}.",
            text.len()
        );
        return Err(Refusal::new(RefusalKind::TooLarge, excerpt(text, 80), message));
    }
    if text.chars().any(|c| c.is_control()) {
        return Err(refuse(
            text,
            "This address contains control characters; write them %-encoded.",
        ));
    }
    if let Some(rest) = text.strip_prefix("~/") {
        return home(text, rest);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(unknown(text));
    };
    match scheme {
        "thread" => ending(text, rest, "thread").map(Address::Thread),
        "approval" => ending(text, rest, "approval").map(Address::Approval),
        "run" => run(text, rest),
        "activity" if rest.is_empty() => Ok(Address::Activity),
        "activity" => Err(refuse(text, "activity: takes no path; filter with options.")
            .next_step("read {\"address\":\"activity:\",\"options\":{\"actor\":\"user\"}}")),
        "attachment" => attachment(text, rest),
        "hm" => opaque(text, rest).map(Address::Hypermedia),
        "ipfs" => opaque(text, rest).map(Address::Ipfs),
        "http" | "https" => web(text),
        "file" => file(text, rest),
        "mcp" => mcp(text, rest),
        "agent" => named(text, rest).map(Address::Agent),
        _ => Err(unknown(text)),
    }
}

fn forms() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(form, _)| *form)
}

fn refuse(subject: &str, message: &str) -> Refusal {
    Refusal::new(RefusalKind::BadRequest, excerpt(subject, 200), message)
}

fn unknown(text: &str) -> Refusal {
    let refusal = refuse(
        text,
        &format!("'{}' is no address of this space.", excerpt(text, 200)),
    )
    .supported(forms());
    if text.starts_with('/') || text.starts_with("./") {
        return refusal.next_step(format!("for a file on disk write file:{}", excerpt(text, 200)));
    }
    refusal
}

fn home(text: &str, rest: &str) -> Result<Address, Refusal> {
    let (root, path) = rest.split_once('/').unwrap_or((rest, ""));
    match root {
        "memory" => MemoryPath::parse(path).map(Address::Memory),
        "tools" if path.is_empty() => Ok(Address::Tools(None)),
        "tools" => match decode_tool_name(path) {
            Some(name) => Ok(Address::Tools(Some(name))),
            None => Err(refuse(text, "This tool address has a broken %-escape.")
                .next_step("write a literal % as %25, or take the address from ~/tools/ as it is shown")),
        },
        "triggers" => named(text, path).map(Address::Triggers),
        "channels" => named(text, path).map(Address::Channels),
        "self" if path.is_empty() => Ok(Address::SelfAgent),
        _ => Err(unknown(text)),
    }
}

fn named(text: &str, rest: &str) -> Result<Option<Name>, Refusal> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() {
        return Ok(None);
    }
    rest.parse()
        .map(Some)
        .map_err(|e: crate::actor::NameError| refuse(text, &format!("{e}.")))
}

fn ending(text: &str, rest: &str, what: &str) -> Result<Option<IdEnding>, Refusal> {
    if rest.is_empty() {
        return Ok(None);
    }
    rest.parse::<IdEnding>().map(Some).map_err(|e| {
        refuse(text, &format!("{e}.")).next_step(format!("read {what}: lists the {what}s with their ids"))
    })
}

fn run(text: &str, rest: &str) -> Result<Address, Refusal> {
    if rest.is_empty() {
        return Ok(Address::Run(None, RunPart::Record));
    }
    let (run, part) = rest.split_once('/').unwrap_or((rest, ""));
    let name = run.parse::<Name>().map_err(|e| {
        refuse(text, &format!("{e}.")).next_step("read run: lists the runs with their ids and names")
    })?;
    let part = match part.split_once('/').unwrap_or((part, "")) {
        ("", "") => RunPart::Record,
        ("why", "") => RunPart::Why,
        ("journal", "") => RunPart::Journal,
        ("output", "") => RunPart::Output,
        ("artifacts", "") => RunPart::Artifacts,
        ("artifacts", artifact) => RunPart::Artifact(
            artifact
                .parse()
                .map_err(|e: crate::actor::NameError| refuse(text, &format!("{e}.")))?,
        ),
        _ => {
            return Err(refuse(text, "A run has no such part.").supported([
                "/why",
                "/journal",
                "/output",
                "/artifacts",
                "/artifacts/<name>",
            ]));
        }
    };
    Ok(Address::Run(Some(RunName::new(name)), part))
}

fn attachment(text: &str, rest: &str) -> Result<Address, Refusal> {
    if cid::Cid::try_from(rest).is_ok() {
        return Ok(Address::Attachment(rest.to_owned()));
    }
    Err(refuse(text, "attachment: needs the CID that attaching printed.")
        .next_step("pentad attach FILE prints attachment:<cid>"))
}

fn opaque(text: &str, rest: &str) -> Result<String, Refusal> {
    match rest.strip_prefix("//") {
        Some(rest) if !rest.is_empty() => Ok(rest.to_owned()),
        _ => Err(refuse(
            text,
            "This address needs '//' and a target after its scheme.",
        )),
    }
}

fn web(text: &str) -> Result<Address, Refusal> {
    let url = Url::parse(text).map_err(|e| refuse(text, &format!("This is no URL: {e}.")))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse(text, "This URL names no host."));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse(
            url.host_str().unwrap_or(""),
            "A URL with a user name or password in it is not read.",
        ));
    }
    Ok(Address::Web(url))
}

fn file(text: &str, rest: &str) -> Result<Address, Refusal> {
    let path = match rest.strip_prefix("//") {
        None => rest.to_owned(),
        Some(after) => {
            let Some(path) = after.strip_prefix("localhost").unwrap_or(after).strip_prefix('/') else {
                return Err(refuse(
                    text,
                    "file:// with a host other than localhost is not read.",
                ));
            };
            let decoded =
                decode_tool_name(path).ok_or_else(|| refuse(text, "This URL has a broken %-escape."))?;
            format!("/{decoded}")
        }
    };
    if path.is_empty() {
        return Err(refuse(text, "file: needs a path.").next_step("read file:. lists the workspace"));
    }
    if path.contains('\0') {
        return Err(refuse(text, "A file path cannot contain NUL."));
    }
    Ok(Address::File(path))
}

fn mcp(text: &str, rest: &str) -> Result<Address, Refusal> {
    match rest.split_once('/') {
        Some((server, uri)) if !server.is_empty() => Ok(Address::Mcp {
            server: server.to_owned(),
            uri: uri.to_owned(),
        }),
        _ => Err(
            refuse(text, "mcp: needs a server and a resource: mcp:<server>/<uri>.")
                .next_step("read mcp:<server>/ lists what a server offers besides tools"),
        ),
    }
}
