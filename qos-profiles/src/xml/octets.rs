//! Bytes in files.
//!
//! Owns: the distinction between base64 (the OMG's form), hexadecimal, and lists of numbers (RTI's
//! form). Never does: guess; any other text is an error.

use super::error::{UnplacedError, quoted};

/// Maximum number of bytes of a policy's data.
const MOST: usize = 1 << 16;

/// Parses bytes. `0x0a0B` is hexadecimal. One number up to 255, or several separated by commas or
/// white space, are a list. Any other text is base64.
pub(super) fn octets(text: &str) -> Result<Vec<u8>, UnplacedError> {
    let error = |found: String| {
        UnplacedError::new(
            found,
            "expected base64, hexadecimal (`0x0a0b`) or a list of bytes (`10, 11`)",
        )
    };
    let is_number = |token: &str| {
        token.len() <= 3 && token.bytes().all(|byte| byte.is_ascii_digit())
            || token.len() <= 4 && hexadecimal(token).is_some()
    };
    let mut tokens = text
        .split(|letter: char| letter == ',' || letter.is_whitespace())
        .filter(|token| !token.is_empty());
    let bytes = if text.contains(',') || tokens.clone().all(is_number) {
        let byte = |token: &str| {
            let number = match hexadecimal(token) {
                Some(digits) => u8::from_str_radix(digits, 16).ok(),
                None if token.bytes().all(|byte| byte.is_ascii_digit()) => token.parse().ok(),
                None => None,
            };
            number.ok_or_else(|| error(format!("found {} in a list of bytes", quoted(token))))
        };
        tokens.map(byte).collect::<Result<Vec<u8>, UnplacedError>>()?
    } else if let Some(digits) = tokens.next().and_then(hexadecimal) {
        let digits: Vec<u8> = digits.bytes().chain(tokens.flat_map(str::bytes)).collect();
        from_hexadecimal(&digits).map_err(error)?
    } else {
        let letters: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        from_base64(&letters).map_err(|found| error(format!("found {}: {found}", quoted(text))))?
    };
    if bytes.len() > MOST {
        return Err(UnplacedError::new(
            format!("found {} bytes", bytes.len()),
            format!("expected {MOST} at most"),
        ));
    }
    Ok(bytes)
}

fn hexadecimal(token: &str) -> Option<&str> {
    token.strip_prefix("0x").or_else(|| token.strip_prefix("0X"))
}

fn from_hexadecimal(digits: &[u8]) -> Result<Vec<u8>, String> {
    if digits.is_empty() || digits.len() % 2 == 1 {
        return Err(format!(
            "found {} hexadecimal digits, which make no whole bytes",
            digits.len()
        ));
    }
    let digit = |byte: u8| {
        let digit = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        digit.ok_or_else(|| {
            format!("found {} among hexadecimal digits", quoted(&char::from(byte).to_string()))
        })
    };
    digits.chunks(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn from_base64(letters: &[u8]) -> Result<Vec<u8>, String> {
    let padding = letters.iter().rev().take_while(|byte| **byte == b'=').count();
    if !letters.len().is_multiple_of(4) || padding > 2 {
        return Err(
            "base64 comes in groups of four letters, the last filled up with `=`".to_owned()
        );
    }
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    for group in letters.chunks(4) {
        let padded = group.iter().rev().take_while(|byte| **byte == b'=').count();
        let mut bits = 0u32;
        for letter in &group[..4 - padded] {
            let value = ALPHABET.iter().position(|own| own == letter);
            let value = value.ok_or_else(|| {
                format!("{} is no letter of base64", quoted(&char::from(*letter).to_string()))
            })?;
            bits = bits << 6 | value as u32;
        }
        bits <<= 6 * padded;
        if bits & ((1 << (8 * padded)) - 1) != 0 {
            return Err("the last letter before `=` has bits beyond the last whole byte".to_owned());
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padded]);
    }
    Ok(bytes)
}

/// Writes bytes in base64, the OMG's form. If that would look like hexadecimal, writes hexadecimal.
pub(super) fn to_text(bytes: &[u8]) -> String {
    let text = to_base64(bytes);
    if hexadecimal(&text).is_none() {
        return text;
    }
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut four = [0; 4];
        four[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(four);
        for letter in 0..4 {
            if letter > group.len() {
                text.push('=');
            } else {
                text.push(char::from(ALPHABET[(bits >> (18 - 6 * letter)) as usize & 63]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_read_from_hexadecimal_list_or_base64() {
        for (text, bytes) in [
            ("", &[][..]),
            ("0x0a0B", &[10, 11]),
            ("0X0a0b 0c", &[10, 11, 12]),
            ("10, 11,0xc", &[10, 11, 12]),
            ("7", &[7]),
            ("1 22 255", &[1, 22, 255]),
            ("Cgs=", &[10, 11]),
            ("Cg==", &[10]),
            ("CgsM\n CgsM", &[10, 11, 12, 10, 11, 12]),
            ("1234", &[0xd7, 0x6d, 0xf8]),
        ] {
            assert_eq!(octets(text), Ok(bytes.to_vec()), "{text}");
        }
    }

    #[test]
    fn number_of_octets_is_limited() {
        let zeros = |count: usize| octets(&format!("0x{}", "00".repeat(count)));
        assert_eq!(zeros(MOST), Ok(vec![0; MOST]));
        assert!(zeros(MOST + 1).is_err());
    }

    #[test]
    fn octet_error_states_reason() {
        for (text, found) in [
            ("256", "found `256` in a list of bytes"),
            ("1,x", "found `x` in a list of bytes"),
            ("1,+2", "found `+2` in a list of bytes"),
            ("0xabc", "found 3 hexadecimal digits, which make no whole bytes"),
            ("0xabcde", "found 5 hexadecimal digits, which make no whole bytes"),
            ("0x0a0g0b", "found `g` among hexadecimal digits"),
            (
                "Cgs",
                "found `Cgs`: base64 comes in groups of four letters, the last filled up with `=`",
            ),
            (
                "C===",
                "found `C===`: base64 comes in groups of four letters, the last filled up with `=`",
            ),
            ("Cg=s", "found `Cg=s`: `=` is no letter of base64"),
            ("Cg!s", "found `Cg!s`: `!` is no letter of base64"),
            (
                "Ch==",
                "found `Ch==`: the last letter before `=` has bits beyond the last whole byte",
            ),
        ] {
            assert_eq!(octets(text).unwrap_err().found, found, "{text}");
        }
        let long = "0x".to_owned() + &"00".repeat(MOST + 1);
        assert_eq!(octets(&long).unwrap_err().found, "found 65537 bytes");
    }

    #[test]
    fn base64_survives_round_trip() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..=255 {
            let text = to_base64(&bytes[..length]);
            assert_eq!(from_base64(text.as_bytes()), Ok(bytes[..length].to_vec()));
        }
    }

    #[test]
    fn octets_with_ambiguous_base64_survive_round_trip() {
        for letters in ["0xE=", "0xABCDEF", "0XAB", "1234", "0000"] {
            let bytes = from_base64(letters.as_bytes()).unwrap();
            let text = to_text(&bytes);
            assert_eq!(octets(&text), Ok(bytes), "{letters} {text}");
        }
    }
}
