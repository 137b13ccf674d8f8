# a firewall: ClassBench's fw1 set of 75,613 filters, counted
family ipv4
# filters: distinct sources and destinations in a thousand, counted in sets of three sizes
sharing 565 172 129
sharing 8111 366 709
sharing 75613 240 749
# classes of ports, a source length, then destination lengths with how often they occur
lengths any any 0: 0=14 1=24 2=18 30=3 31=42 32=53
lengths any any 1: 0=23 1=20 31=26 32=62
lengths any any 2: 0=20 32=16
lengths any any 6: 0=27
lengths any any 7: 0=73 1=50
lengths any any 8: 0=80 1=49 2=12
lengths any any 9: 0=36 1=23
lengths any any 10: 0=20
lengths any any 11: 0=83 1=48
lengths any any 12: 0=93 1=44 2=13
lengths any any 13: 0=41 1=19
lengths any any 14: 0=22
lengths any any 15: 0=93 1=44
lengths any any 16: 0=74 1=47 2=6
lengths any any 17: 0=49 1=9
lengths any any 18: 0=4
lengths any any 19: 0=96
lengths any any 20: 0=319 1=182
lengths any any 21: 0=402 1=204 2=12
lengths any any 22: 0=435 1=178
lengths any any 23: 0=372 1=145 2=62
lengths any any 24: 0=169 1=99
lengths any any 25: 0=107 1=144
lengths any any 26: 0=316 1=205 2=2 32=16
lengths any any 27: 0=422 1=259 2=14 31=25 32=137
lengths any any 28: 0=405 1=237 2=10 30=5 31=113 32=210
lengths any any 29: 0=436 1=271 2=52 31=119 32=270
lengths any any 30: 0=518 1=265 2=21 28=9 30=36 31=145 32=253
lengths any any 31: 0=604 1=317 27=32 28=90 29=150 30=124 31=246 32=207
lengths any any 32: 0=608 1=569 2=146 26=22 27=92 28=246 29=255 30=235 31=199 32=88
lengths any exact 0: 0=135 1=147 2=71 25=36 26=148 27=115 28=57 29=10 30=3909 31=12386 32=9175
lengths any exact 1: 0=154 1=79 26=72 27=80 28=15 31=5656 32=9449
lengths any exact 2: 0=61 27=9 32=2208
lengths any exact 24: 21=1
lengths any exact 25: 20=3 21=29 22=18
lengths any exact 26: 19=6 20=28 21=55 22=18 23=1
lengths any exact 27: 20=19 21=28 22=4
lengths any exact 28: 21=8
lengths any exact 30: 0=84 32=9
lengths any exact 31: 0=271 1=105 31=21 32=105
lengths any exact 32: 0=190 1=164 2=38 30=9 31=103 32=291
lengths high high 0: 30=222 31=694 32=536
lengths high high 1: 31=339 32=581
lengths high high 2: 32=139
lengths high high 30: 21=27 32=19
lengths high high 31: 20=53 21=184 22=164 31=43 32=163
lengths high high 32: 19=20 20=186 21=317 22=340 23=68 30=33 31=186 32=480
lengths high range 0: 0=1 1=2 2=4
lengths high range 1: 0=2 1=2
lengths high range 2: 0=3
lengths high exact 0: 30=73 31=283 32=209
lengths high exact 1: 31=129 32=229
lengths high exact 2: 32=44
lengths high exact 30: 32=7
lengths high exact 31: 31=30 32=105
lengths high exact 32: 30=18 31=110 32=320
lengths range high 0: 0=1 1=2 2=2
lengths range high 1: 0=2 1=2
lengths range high 2: 0=3
lengths exact any 0: 0=10 1=20 2=12 30=94 31=264 32=175
lengths exact any 1: 0=20 1=19 31=130 32=221
lengths exact any 2: 0=10 32=40
lengths exact any 30: 0=607
lengths exact any 31: 0=1685 1=648
lengths exact any 32: 0=1423 1=1142 2=283
lengths exact high 30: 0=97 32=13
lengths exact high 31: 0=288 1=105 31=48 32=133
lengths exact high 32: 0=237 1=165 2=33 30=19 31=131 32=293
lengths exact exact 0: 30=60 31=215 32=168
lengths exact exact 1: 31=110 32=168
lengths exact exact 2: 32=35
lengths exact exact 26: 28=7
lengths exact exact 27: 27=12 28=70 29=49
lengths exact exact 28: 26=9 27=60 28=102 29=50 30=6
lengths exact exact 29: 27=45 28=64 29=8
lengths exact exact 30: 0=62 28=3
lengths exact exact 31: 0=222 1=90
lengths exact exact 32: 0=199 1=141 2=29
# protocol, classes of source and destination ports
service 6 any exact 34900
service 17 any exact 10680
service 17 exact any 6803
service 6 any any 6086
service 47 any any 3585
service 6 high high 3147
service 1 any any 2880
service 17 exact exact 1984
service 17 high high 1647
service 17 exact high 1562
service 17 high exact 1557
service any any any 756
service 17 high range 14
service 17 range high 12
source_ports 123=2332 53=2096 750=1279 161=1102 69=828 88=806 7648=556 24032=548 67=508 162=294
source_ranges 33434-33600=12
destination_ports 22=8195 80=5258 25=4862 53=4730 123=3484 544=1468 21=1466 750=1461 2105=1379 161=1128 23=1113
destination_ports 443=1111 110=903 67=894 88=874 69=866 7648=832 119=813 5999=631 24032=617 37=604 1999=599
destination_ports 179=587 754=568 871=315 162=312 113=309 137=304 879=303 13=302 2055=301 8080=299 139=296
destination_ports 7326=292 138=287 2401=279 7649=277 873=272 143=266 5998=264
destination_ranges 33434-33600=14
tcp_flags 0x0200/0x1200 42315
tcp_flags 0x0000/0x0000 572
tcp_flags 0x0400/0x0400 315
tcp_flags 0x0000/0x0200 314
tcp_flags 0x0100/0x0100 311
tcp_flags 0x1000/0x1000 306
