//! Command templates: words, placeholders, types, graph. Pure; execution goes through a Launcher.
