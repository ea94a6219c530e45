//! Makes inputs from seeds.

use constel_link::Rng;

/// Maximum length of an input, bytes.
const MOST_BYTES: usize = 256 << 10;

/// Numbers at which arithmetic often fails.
const NUMBERS: [&[u8]; 16] = [
    b"0",
    b"-1",
    b"1",
    b"255",
    b"256",
    b"65535",
    b"65536",
    b"2147483648",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1e308",
    b"nan",
    b"-inf",
];

/// Makes inputs from seeds.
pub(crate) struct Mutator<'s> {
    target: u32,
    seed: u64,
    seeds: &'s [Vec<u8>],
}

impl<'s> Mutator<'s> {
    pub(crate) fn new(target: &str, seed: u64, seeds: &'s [Vec<u8>]) -> Self {
        let mut name = [0; 4];
        name.copy_from_slice(&blake3::hash(target.as_bytes()).as_bytes()[..4]);
        Self {
            target: u32::from_be_bytes(name),
            seed,
            seeds,
        }
    }

    /// Returns the input with this number.
    pub(crate) fn input(&self, number: u64) -> Vec<u8> {
        let (low, high) = (number as u32, (number >> 32) as u32);
        let mut rng = Rng::for_edge(self.seed, self.target, low, high);
        let mut bytes = self.pick(&mut rng).to_vec();
        // The first inputs are the seeds themselves.
        if let Some(seed) = self.seeds.get(number as usize) {
            return seed.clone();
        }
        for _ in 0..1 + below(&mut rng, 8) {
            self.change(&mut rng, &mut bytes);
        }
        bytes.truncate(MOST_BYTES);
        bytes
    }

    fn pick(&self, rng: &mut Rng) -> &'s [u8] {
        match self.seeds.len() {
            0 => &[],
            many => &self.seeds[below(rng, many)],
        }
    }

    fn change(&self, rng: &mut Rng, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let at = below(rng, length + 1);
        let span = at..(at + 1 + below(rng, 32)).min(length).max(at);
        match below(rng, 12) {
            0 if at < length => bytes[at] ^= 1 << below(rng, 8),
            1 if at < length => bytes[at] = rng.next_u64() as u8,
            2 => drop(bytes.drain(span)),
            3 => bytes.truncate(at),
            4 => {
                let copy = bytes[span].to_vec();
                let times = 1 + below(rng, 64);
                let copies = copy.repeat(times);
                bytes.splice(at..at, copies);
            }
            5 => {
                let other = self.pick(rng);
                let from = below(rng, other.len() + 1);
                let to = (from + below(rng, 200)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            6 => {
                let other = self.pick(rng);
                bytes.truncate(at);
                bytes.extend(&other[below(rng, other.len() + 1)..]);
            }
            7 => number_at(rng, bytes, at),
            8 => {
                // A binary field of 1 to 8 bytes, at its limits.
                let width = [1, 2, 4, 8][below(rng, 4)].min(length - at);
                let fill = [0x00, 0x01, 0x7f, 0x80, 0xff][below(rng, 5)];
                bytes[at..at + width].fill(fill);
            }
            9 => line_moved(rng, bytes),
            10 => {
                let odd: [&[u8]; 8] = [
                    b"\n",
                    b"\r\n",
                    b"\xef\xbb\xbf",
                    b"\0",
                    b"\xff",
                    b"\"",
                    b"\x1b[2J",
                    "\u{202e}\u{0301}".as_bytes(),
                ];
                bytes.splice(at..at, odd[below(rng, odd.len())].iter().copied());
            }
            _ => {
                let open: [&[u8]; 6] = [b"[", b"{", b"<a>", b"- ", b"&a *a ", b"(("];
                let deep = open[below(rng, open.len())].repeat(1 + below(rng, 3_000));
                bytes.splice(at..at, deep);
            }
        }
        if bytes.len() > MOST_BYTES {
            bytes.truncate(MOST_BYTES);
        }
    }
}

/// Returns a number below `most`, which must not be zero.
fn below(rng: &mut Rng, most: usize) -> usize {
    (rng.next_u64() % most as u64) as usize
}

/// Replaces the next number in a text.
fn number_at(rng: &mut Rng, bytes: &mut Vec<u8>, at: usize) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(from) = bytes[at..].iter().position(is_digit).map(|n| at + n) else {
        return;
    };
    let length = bytes[from..].iter().take_while(|b| is_digit(b)).count();
    let number = NUMBERS[below(rng, NUMBERS.len())];
    bytes.splice(from..from + length, number.iter().copied());
}

/// Moves a line before another one, once or twice.
fn line_moved(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    if lines.len() < 2 {
        return;
    }
    let line = lines[below(rng, lines.len())].clone();
    let to = below(rng, lines.len());
    if below(rng, 2) == 0 {
        lines.remove(below(rng, lines.len()));
    }
    lines.insert(to.min(lines.len()), line);
    *bytes = lines.concat();
}
