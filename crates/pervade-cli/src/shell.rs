//! Words of commands that a reader may copy into a shell.

use std::borrow::Cow;

/// A word as a shell takes it: in quotes if it has spaces or characters that mean something there.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,=:+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn words_with_meaning_to_a_shell_are_quoted() {
        for plain in ["table.csv", "../a-b/c_d.csv.gz", "Größe=number", "a,b:c@d+1%"] {
            assert_eq!(word(plain), plain);
        }
        assert_eq!(word("my table.csv"), "'my table.csv'");
        assert_eq!(word("price €"), "'price €'");
        assert_eq!(word("it's"), r"'it'\''s'");
        for other in ["", "$HOME", "a;b", "`x`", "a*b", "~", "#", "(", "a\nb"] {
            assert_eq!(word(other), format!("'{other}'"));
        }
    }

    #[test]
    fn a_shell_gives_the_words_back() {
        let words = ["my table.csv", "it's", "$HOME `x` \"y\" \\", "*", "a\nb", "-é", "~/x"];
        let script = format!("printf '%s|' {}", words.map(word).join(" "));
        let Ok(shell) = std::process::Command::new("sh").args(["-c", &script]).output() else { return };
        assert_eq!(String::from_utf8(shell.stdout).unwrap(), words.map(|word| format!("{word}|")).concat());
    }
}
