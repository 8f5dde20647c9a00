"""Answers beside gold ones, right and wrong, invented for these tests: what spelling settles, and what takes algebra."""

from __future__ import annotations

SPELLED_RIGHT = {
    "number": [(r"\frac{36}{2}", "18"),
        ("18", "18"), (r"\$18.00", "18"), ("18 dollars", "18"), ("1,234", "1234"), ("1{,}234", "1234"), (r"1\,234", "1234"),
        ("x = 18", "18"), (r"18\text{ eggs}", "18"), (r"204^\circ", "204"), ("033", "33"), (r"1.8\times 10^1", "18"),
        (r"\text{18}", "18"), (r"18\%", "18"), (r"\textbf{18}", "18"), (r"18 \text{ dollars per day}", "18"), ("18/1", "18"),
        ("70.", "70"), ("１８", "18"), ("−5", "-5"),
        (r"\approx 18", "18"), ("≈ 18", "18"), ("= 18", "18"), ("{18}", "18"), ("18 million", "18000000"), (r"18{,}000{,}000", "18000000"),
        (r"2.5\text{ million dollars}", "2500000"), ("3 thousand", "3,000"), (r"18\text{ m/s}", "18"), (r"18\,\text{m}\cdot\text{s}^{-1}", "18"),
        ("18 cm", "18"), ("18 km/h", "18"), ("18 m/s", "18"), ("18 out of the total", "18"), (r"18\text{ hours and some minutes}", "18"),
    ],
    "math": [(r"x=1\pm\sqrt{19}", r"1 \pm \sqrt{19}"),
        ("Evelyn", r"\text{Evelyn}"), (r"\text{evelyn}", r"\text{Evelyn}"), ("90", r"90^\circ"), ("90 degrees", r"90^\circ"),
        ("14/3", r"\frac{14}{3}"), (r"\tfrac{14}3", r"\frac{14}{3}"), ("5", "x=5"), ("x=5", "5"), ("52_{8}", "52_8"),
        ("52", "52_8"), (r"\frac{4}{3}", r"\frac43"), ("10080", r"10,\!080"), (r"10\,080", r"10,\!080"), ("C", r"\text{(C)}"), ("(C)", r"\text{(C)}"),
        ("864", r"864 \mbox{ inches}^2"), ("5.4", r"5.4 \text{ cents}"), ("1.8", r"1\frac{4}{5}"), ("137.5", r"137 \frac{1}{2}"),
        ("[-2,7]", r"x \in [-2,7]"), ("0.333333", r"\frac{1}{3}"), ("18+2π", r"18+2\pi"), ("18.9", r"\$18.90"),
        ("58{,}500", "58,500"), (r"\text{east}.", r"\text{east}"), (r"11\sqrt{2}", r"11\sqrt2"), ("f(x)=2k+2", "2k+2"),
        (r"\left(\frac35,\frac83\right]", r"\left(\frac{3}{5},\frac{8}{3}\right]"), ("11111111100", r"11,\! 111,\! 111,\! 100"),
        (r"\begin{bmatrix}1\\-2\end{bmatrix}", r"\begin{pmatrix} 1 \\ -2 \end{pmatrix}"), ("2x+3", "y = 2x + 3"),
    ],
    "measured": [
        (r"1.6\ \mathrm{m\,s^{-1}}", "1.6"), (r"1.6\ \mathrm{mol\cdot L^{-1}}", "1.6"), (r"1.6\ \text{kg m}^2/\text{s}", "1.6"),
        (r"4.5\times10^{33}", "4.5e33"), (r"4.5 \times 10^{33} \mathrm{~erg/s}", "4.5e33"), ("4.52e33", "4.5e33"),
        (r"-\frac13", "-1./3"), (r"2.998\times 10^8", "3e8"), (r"1.61 \text{ cm}", "1.6"), ("125-1.25P", "X_{d}=125-1.25 P"),
        ("+2", "2"), (r"6.5\times 10^{-2}", "6.5e-2"), ("1.6 cm", "1.6"), (r"\approx 2.45", "2.45"), (r"1.6\ \text{kg}\cdot\text{m}^2\cdot\text{s}^{-1}", "1.6"), (r"1.7 \times 10^4", "1.70e4"),
    ],
    "choice": [("C", "C")],
}  # fmt: skip
SPELLED_WRONG = {
    "number": [("19", "18"), ("18.5", "18"), ("-18", "18"), ("180", "18"), ("0.999999999", "1"), ("18 million", "18"), (r"18\text{ million}", "18"), ("18 thousand", "18000000")],
    "math": [
        ("4.667", r"\frac{14}{3}"), ("Eve", r"\text{Evelyn}"), ("odd", r"\text{even}"), ("52_9", "52_8"), ("53", "52_8"),
        ("333", "0.333"), ("1.0000001", "1"),
    ],
    "measured": [("4.5e32", "4.5e33"), ("4.5", "4.5e33"), ("1.7", "1.6"), ("-1.6", "1.6"), ("0.01", "0")],
    "choice": [("B", "C")],
}  # fmt: skip
ALGEBRA_RIGHT = {
    "number": [("2^5", "32"), ("3+4", "7"), ("m+n=204", "204"), ("m+n=16+2=18", "18"), (r"3 \times 6 = 18 \approx 18.0", "18")],
    "math": [
        (r"x = \frac{28}{6} = \frac{14}{3}", r"\frac{14}{3}"), (r"\frac{14}{3} \approx 4.667", r"\frac{14}{3}"), (r"f = b+a = 2a+b-a", "a+b"),
        (r"(3,\pi/2)", r"\left( 3, \frac{\pi}{2} \right)"), ("-q+p", "p - q"), ("-2,1", "1,-2"), (r"\{1,-2\}", "1,-2"),
        ("x=1, x=-2", "1,-2"), (r"x=1\text{ or }x=-2", "1,-2"), (r"1-\sqrt{19},1+\sqrt{19}", r"1 \pm \sqrt{19}"),
        (r"3<x\le4", "(3,4]"), ("x>5", r"(5,\infty)"),
        (r"\begin{pmatrix}-\frac13\\\frac23\end{pmatrix}", r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}"),
        (r"(3,\infty)\cup(-\infty,2)", r"(-\infty, 2) \cup (3, \infty)"), (r"-2\le x\le 7", r"x \in [-2,7]"),
        ("y=3+2x", "y = 2x + 3"), ("10x-14y+8=0", "5x - 7y + 4 = 0"), (r"\frac{1}{\sqrt3}", r"\frac{\sqrt{3}}{3}"),
        (r"\frac{\cos x}{\sin x}", r"\cot x"), ("ab+2a+5b+10", "(a+5)(b+2)"), (r"-2, 1+\sqrt5, 1-\sqrt5", r"\{1\pm\sqrt{5},-2\}"),
        ("-5i+6", "6 - 5i"), ("6366.1977", r"\frac{20000}{\pi}"), (r"(0.6, \frac83]", r"\left(\frac{3}{5},\frac{8}{3}\right]"),
    ],
    "measured": [(r"10\sqrt{10}\ \mathrm{m\,s^{-1}}", "31.6"),
        (r"\sin^{-1}(10/13)", "np.arcsin(10/13)"), ("0.878", "np.arcsin(10/13)"), (r"\frac{c}{\sqrt2}", r"\frac{1}{\sqrt{2}}c"),
        (r"\frac{1}{2a}(e^{at}-e^{-at})", r"\frac{1}{2a}(\exp{a*t} - \exp{-a*t})"), ("E_2, E_1", "E_{1},E_{2}"), ("SRMC=MR", "MR=SRMC"),
        (r"\frac{t}{m}", r"\frac{1}{m} t"), (r"r_0\sqrt{4\pi G\rho_0}", r"\sqrt{4 \pi G \rho_{0} r_{0}^{2}}"),
        (r"b v + m\dot{v}=f", r"m \frac{d v}{d t}+b v=f"), (r"x'+\frac{r}{V}x = rc", r"x^{\prime}+\frac{r}{V} x-r c=0"),
        (r"2\cos(\pi(t+1/3))", r"2 \cos (\pi t+\pi / 3)"), ("1.57", r"\frac{\pi}{2}"), (r"10\sqrt{10}", "31.6"), ("0.065 m", "6.5e-2"),
        ("2 pi", "6.28"), (r"v \approx 2.45", "2.45"), (r"\sqrt{6} ≈ 2.45 \text{ m/s}", "2.45"),
        (r"\frac{\lambda_{red}}{\sqrt2}", r"\lambda_{\text {red}} / \sqrt{2}"), (r"\frac{9.25 m}{1}", r"\frac{37}{4} m"),
    ],
}  # fmt: skip
ALGEBRA_WRONG = {
    "number": [(r"\frac{1}{0}", "5"), ("1,8", "18"), ("18, 19", "18"), (r"\text{eighteen}", "18"), ("18x", "18"), (r"18\pi", "18"), ("2k", "2"), ("5 plus sqrt", "5"), ("5 xy", "5"), (r"5\operatorname{ln}", "5"),
        (r"5\text{ plus more}", "5"), (r"5\text{ or 6}", "5"), (r"5\mathrm{i}", "5"), ("5/x", "5"), ("m+n=18=19", "18"), ("m=18=n, k=18", "18"), ("5 hours or 6 hours", "5"), (r"5\text{ hours and 30 minutes}", "5"), (r"5\text{ squared}", "5"), (r"5\mathrm{\pi}", "5"), ("18 x/y", "18"), ("18 < x = 18", "18"), ("nan", "5"), ("()", "5")],
    "math": [("x=4", "5"),
        ("(3,4)", "(3,4]"), ("3,4", "(3,4)"), ("(4,3)", "(3,4)"), ("1", "1,-2"), ("1,-2,3", "1,-2"), ("1,1", "1,-2"), ("y=2x+4", "y = 2x + 3"),
        ("p+q", "p - q"), ("q-p", "p - q"), ("x<5", r"(5,\infty)"), (r"1+\sqrt{19}", r"1 \pm \sqrt{19}"), (r"\infty", "5"), ("90^2", "90"),
        ("|x|", "x"),
    ],
    "measured": [
        ("SRMC", "MR=SRMC"), ("MR=SRAC", "MR=SRMC"), (r"\frac{m}{t}", r"\frac{1}{m} t"), (r"c\sqrt2", r"\frac{1}{\sqrt{2}}c"), ("E_1", "E_{1},E_{2}"),
        ("e^t", "e^{t} / 3"), ("I", "I(0)"), ("9", "m"), (r"e^{-\frac{t}{R L}}", r"e^{-\frac{t}{R C}}"),
    ],
}  # fmt: skip


def each(table):
    return [(kind, said, gold) for kind, pairs in table.items() for said, gold in pairs]
