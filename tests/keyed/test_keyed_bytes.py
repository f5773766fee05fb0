"""Bytes that earlier versions wrote go on as if nothing had happened: the rows in them are as they always were."""

from base64 import b85decode
from typing import Any
from zlib import decompress

import pyarrow as pa
import pytest

from sash import KeyedWindows, monoids

# What `made(every)` and its pushes gave when rows lay in flat runs.
EVENTS = (
    "c-rk*3vg7`8Q#r<gb*Q82$7J8s~}Lo-Me=m;SJ>(0g;y&#IVV|NiNy!#=E<O@Nm$M0uFUhgj!~*SX;F)MePhlai-I1AAmdpD82$k6fMkH71~"
    "a%miGMTeCKBO2uO99&RFi`&-b5m|NGr@|MTCw_nvRo*jbaaT<f!4u4SG`qR})w!}>1sG@7jm=FImrdKL`s>q%NoCTn_<9@c2FVn)1$?+$oru"
    "esQ?TUj%fibko~WF;v$)oetPCLIxF7&8-eh|lXq2Zb1RyqN-QGigU^`BC-p7(d3Mfp{!(Ya=%2pHC;Njm8svkRIErZ{P!p*VQG=WXAw(GZBx"
    "bl2$y{(HD<Zo3<Ud=|Jl8tRSv<Dwa&}3%1!6Ra<m`Pt(}0nut+NS514pXj_JCVf;RRvSyRD4D3n8nj*>C2B%HQ5PN-^mxnL563$-3jG7(C##"
    "tWgq9V1_u8UaFlr4rp!;RF}i^0ak|A?3reif7lc6cJ=qH9uCG%2nsX{Stn#nDt#T7;2oZ8kfa5xYLsWFjXk=$y%TG7`-=T_V-=-=55~#B*uq"
    "YR))QQ)J2II1`;Jk+jW7lQ^5%VkW41bY7YX^Dd_d_+*Jwi`lEQVpc*-?vM&i^ZP@Z*B=ZA^iU`e_J-;3hImWt!n+&dwzU+56)SLO(YUmrPW#"
    "y?ZHspVH9fqd)g?A|ce*UYE5Ii}6W|x13kV1Z3J3`Z3#iBuhkJoOpa%2<bzlG(1crcNAow)!Y2eeqr-4rcp9Ve+d>Z&P@M+-lgU=5>KluFM^"
    "MlV1K0o;U;PZpe4?Z1yI{0+(>EP4Br-M%ipAJ49d^-37;0u5+0KNeD0^kdPF95y(_yXVyfG-HXAozmd3xY2Qz99I5;0uB;2)-crLf{L5F9g0"
    "2_(I?dfiDEU5copi3xO{TzA*U0;0uE<48Ab<!r%*oFATnLMK0>aD;=M7H0k)Iqe~|souG6=(g{mPGW#U6Pcr)?vrjVnB(qO4`y{hZGW#U6Pc"
    "mzgS(D6~WY#3JCYd$KtVw1~GHa4qRC|p5*mYv)cC&vqSFwM$;*OUny=A}IJwf|<O<O1Q&Q?%*lUmDHo_uxLhq>szO+o2>bZT(Px$TE)bI`jB"
    "SmneCZ`!|J>9O;TkAEV2Uj;63;)ECY^VpRC;M2b-K<|FwLMKjm-}jep^NxRhUuX0l1lBrn!rMBz^^d3eCcel=?`yz1Cr)_obDOpH;e!_Cq4y"
    "1-<-`eZ$Fsdo9ewd1@5=nW4U9T*!aMB!V$FN=HqVgxI|__Dal+f$FK@fM{K=g%f5(Bg6DPb^HZK3|#z$8k%0};dz?2gwyk`?HKJ=;OnwEuLD"
    "u{J%;V(g-Qz?;B_HPDyXE;p4JNe|;;&qR|RVQa+rh?Mj@X;;LZ+qgU59JwWDJZ>zJEj(W{=<={<c!TxP<oONgLchTP<q|gubOk;lIg4D%+6C"
    "#dXi7}-makZrkvAH#CAN^MOMIW;Cv@ec)g}{U%PWp@#`{f5AY5rPI$RnkH1h_cdavHdx3X4al+eo`rhio2d~bT6}1mo?ZgSM%U{>J4{!bb8k"
    "y$<z=#tkyu_ra-MIDW-(=;r0c)H%;q@x}k*8<j$fV5kA)w*J2`}|@$??xh?<tcNdKhRral$*b!Fylz?z2CYy{`l7ojBpW^n<QVv)jA(lX*D;"
    "Y;fX)cc6H|Xz%HtJtFJxP2eIYPIwdSJs;oGKIyE?%Ui%kCr)_F&Xhe9-hSN!vi{xyHaT&^bFZ%~+jXY0Nam#-7<1x;SN3`7JKLYATqx`B7_i"
    "xi6W*$uKGl|%f94G5Pr$pJIN_~#*EEjUHv9uwSMLH7PMq)#G`?`4ZPk_=WnNAIlTMuQdJfz^e$$WZx5&DBAGp|w6W*L{EiZ4l`|(XOFDHR5P"
    "Mq-8Y`TB{)Pw8J=DIpIFOu|cwhdr@5pNZ^3fVIz*Ol+$V|3@Rwu`kWQ#tt0?hn-FYCO|*^v`Bo?4T^->VZD_B%>$TYQEp)9>e~v6tSHswj?c"
    "<kUju;HdxFvA};rQob+6Ol<nV}cHTZpOp=ekkXfD!^Ucp+#MtuLwdV0FEW-7R^OPtYjl7-1`zT-DuaU34$QM0f2BUx8S6th3Z2$6$<dm*0nw"
    "Hb_TwUxM+R`}F<7k{otG1D<^>=B!7s%C@@=ebL_VIMyd{f>Qy2UlnR_N-D%oTE0S9T8PDsrW71$<u)^4o@U6}m3pCa)!5>HoTI$yaoqbLF}&"
    "|3-Ol$jE!~m-0?EP;^yC&P&)Hne%pxy(*3KV)<{&%ESxxZ&of|wxf7173F2VjW*|H#>=+k8&i<EU$!ORb6xPu?as`9l`{Ts+IFSgbF^ip-5W"
    "0DUXyQhwB;#v)7hB~v2{^$FQ=<3u$xk6R|C5PzXOzY&=Xh;>;)_VUIXk6ECu!fmI2Fw*8=+juLF93*8^_=_5=0@-Uu8390(i){4Q`Xa0qZH@"
    "Fw}Y2J`_npdY9M1Hd3K1PlW!fWv^pfg^w;fun$<W!(YC0>=Tr2OJNa0GtS%1e^?<0;~ky44ev_2AmGOMfn!ERe9&1rF<>UQQpmOQ{KUEzf#X"
    "v>iJt*&u-LlcG~+{C)8{{YPA40T8P^0ikd7!Ep|r@_CW0wqvlFbYrRopeNbEFsHwiFB@b%o2GmY})XV_X${^IpVARG?)PxtcprHnI%zY4Z9>"
    "!b`!yJ#m+>XMWj=@}x!yJys+)c!sO~zbRVveR_Zl+^SW?(L6Vh&~__j8f+dC0Z=U95>jF4NzY=hKzv)3@{al#M#=jQZ<_y6TB~DMcN4FrR}k"
    "FB<YY40#%d>#fANXX5--Si!2n8tNjfjM!LNSjy~fX7@6?pV<S<9%S|~vyIF)F?);|EeSuxYzwn(%znx2SIl-Y`!%zdnf(FlZ2PfJbp$J~$FT"
    "nK0khN0{=)1Gv%fR@C$n>OFSDDv6SD$lU72-fR?Mt7vvOu0X8oBBVm6eS#w^He7_(8##xa}7tdiMuW;2=1Wme_x_ztiPuVwfwL$eIOW$2a>u"
    "#BK(ge)U$85N|JkxoV$8R=uBjgc-!ni%O}q=k_VMiK;x1+=VBx)*6)q<4|lMLHL0T%>Q2wne%YX<DRbk(Na|7HL?dUy*i2x)o_wq*swvMLHE"
    "}RHRRlHbuG=X;P#|krqWd6lqYTKauuCx)W(mq&Jb)L^=~`Or$T7wnVxTX-cFgk(NX{5@|@JACY!Mx)Etcq!*D^L^=^^M5GUqHblA*X+oq2kr"
    "qTc5NSZ9|B&`Wx({hSr1xC<_vh-Ii+_KXU*h-YCkkGu|F}DIzicm;T18go^LC~3JuBOiuQ^-!KF!YL`vmQc%J+Y{GR|+>u2R;%?@-j5JC!x+"
    "h00oVjiSaF%9?SVvNqhHs4a_>HQcDORvS~)lxAg3)mGL{lZslhSXtxTrL6hyQB<nE%G&&XWevVfQK1egYvr#gYvM-~mFZ1o?fPwHjk;Y?k&Y"
    ">A$;Xv7;}eQX^uDsT`@ejD{p$C*|IhizMZUWspVuH?*W>+a2!5MGc%K=I-{qU}{xApkZ8h#U3-?I^>*g!)TfB<dT4oQWJx92j&XshoqH_hEt"
    "LI!f=c+kZ%(+_5m2$3<bA_C%<6If%syJ7~xf;%uaIS)L1)QtjT>0jzH&?v5+Rc@2u5xpQo2%Pg*%r@zKF_i6=mi6x+WjAfbbvb"
)
BOUNDARIES = (
    "c-pm9!EO^V5KY>&NvjA&s7N57s`db-qEfO++Z1tt3+fTk6RJ?<W}Vi`?mF1srlI6t_yoQIapb@OB#wLrH<<BylkI}l_`piu+3}3uyl0P-!{>"
    "(w3#IX5sdVWPIiP{}WaH8s(6NM%BX8indA#8%7Ey3L<$*I|all79ywk)eJ*Q#}ZmWq-#1y6`!+<D?`61YtN~trNW&%?J!H1Y2s1l@ytKuXKV"
    "S)v-?;a5v{0J-cLM}B!FQk1<hWGoD=9UU7d6+21<JlaKkEsw`;5wZ0CJ4ooSV=8bfSO~53tB$%J0Za_D#mE$vmo;f`=%~7q~Ha{P2z~C-r3a"
    "0tw^J-U7dZ-<TM!2kj|EJ*us98?kf6y!oozP43I53Jx#gB>6@hIp+(>}z;by-^GU)&m5Nd#p;~a5M7fMWjfZsR5^<VD)NIKFYbvftc%__7BG"
    "+Qxg*RWV;gw1ex%eNIu#{ASk|?c4M^s|-boVhp-%eXVpH*5}pIx8DOr|Hhz3=<&_MYEt?{;@OdwV<GW*1kV@ll*XopHh5>DAk<*2G*OeF54X"
    "-5IeGOiy(D&ZK0XWf<i$yiQh1*FRNbE5_a}#8(UUI-EsgZ(8DOjyOdP8P9b`U27Iyn~r>L72-8xeMg*nA--hn(>ZZ!7XF#87jxn)8@pAAXZ!"
    "xr5$ARxzFhd$ok?6e(}rAi?99yGx9r%OBhI!3XWdcPx}~Ew9r@g`@bMjS9$9ea?aaC*f5ovgZ&>)RI(BA;^U8vQ&rf52!}9}d!(`Oql$PK`b"
    "Z)t#wbk?qRm?lR(eGh&jQ;^JAbFu-dMf(`!p6UV@lD4|<!A8vlFPkU$W^*l9Y!_l3B9HPs5RhK)odDuYk8?*?noYEp#92p4)uL>)VBcRz<ht"
    "r@y*x5UoXXa0}1wXPM?MAUwUy5;g9p5dNbZ=AN>0C@caJO>p%BHL*W"
)


def rows(count: int, start: int) -> dict[str, list[Any]]:
    """Rows of two keys, one at each time."""
    return {
        "k": ["a" if i % 3 else "b" for i in range(count)],
        "t": [start + i for i in range(count)],
        "i": [f"id{i + start}" for i in range(count)],
        "x": [i * 7 % 11 for i in range(count)],
        "gone": [False] * count,
    }


def pushed(*, every: bool) -> KeyedWindows:
    """The same stream, taken by the engine of today."""
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    options: dict[str, Any] = {"every": 10} if every else {"id": "i", "retract": "gone"}
    kw = KeyedWindows(keys=["k"], time="t", windows=[50], aggs=aggs, lateness=100, emit="update", **options)
    kw.push(rows(90, 0))
    kw.push(rows(30, 60) if every else rows(30, 200))
    if not every:
        kw.push({"k": ["a", "b"], "t": [31, 400], "i": ["id31", "none"], "x": [0, 0], "gone": [True, True]})
    return kw


@pytest.mark.parametrize(("sample", "every"), [(EVENTS, False), (BOUNDARIES, True)], ids=["events", "boundaries"])
def test_bytes_of_flat_runs_are_read(sample: str, every: bool) -> None:
    """The stream goes on from them with the results of one that was never interrupted."""
    old, new = KeyedWindows.from_bytes(decompress(b85decode(sample))), pushed(every=every)
    old.check_invariants()
    assert old.metrics == new.metrics and old.metrics["live_rows"] > 0
    late = {"k": ["a", "b", "a"], "t": [150, 230, 75], "i": ["p", "q", "r"], "x": [3, 4, 5], "gone": [False] * 3}
    for batch in (late, rows(20, 231)):
        assert same_but_for_revisions(old.push(batch), new.push(batch))
        old.check_invariants()
    assert same_but_for_revisions(old.flush(), new.flush())


def same_but_for_revisions(old: pa.Table, new: pa.Table) -> bool:
    """Compare results; revisions once counted rows instead of pushes, and go on from where they were."""
    assert all(a >= b for a, b in zip(old["revision"].to_pylist(), new["revision"].to_pylist(), strict=True))
    return old.drop_columns("revision").to_pylist() == new.drop_columns("revision").to_pylist()
