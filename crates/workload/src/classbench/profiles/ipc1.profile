# IP chains: ClassBench's ipc1 set of 78,146 filters, counted
family ipv4
# filters: distinct sources and destinations in a thousand, counted in sets of three sizes
sharing 947 279 442
sharing 7564 148 295
sharing 78146 845 901
# classes of ports, a source length, then destination lengths with how often they occur
lengths any any 0: 0=10 1=9 2=4 14=43 15=120 16=165 17=1 18=16 20=13 21=68 22=224 23=370 24=556 25=365
lengths any any 0: 26=148 27=52 28=82 30=12 31=30 32=74
lengths any any 1: 0=9 1=5 15=49 16=1 17=17 21=77 22=99 23=231 24=132 25=73 26=30 27=30 29=7 31=28 32=1
lengths any any 2: 0=7 16=15 22=1 23=2 24=8 25=7 28=6 32=9
lengths any any 14: 0=14 16=4 22=2 24=7 26=5
lengths any any 15: 0=90 1=39 15=17 16=25 17=17 21=5 22=7 23=37 24=49 25=196 26=33 27=63 28=2
lengths any any 16: 0=83 1=71 2=6 14=6 15=58 16=71 17=69 18=5 21=11 22=38 23=84 24=371 25=308 26=181
lengths any any 16: 27=81 29=30
lengths any any 17: 0=171 1=13 2=1 14=12 15=25 16=132 17=38 18=3 20=3 21=13 22=73 23=210 24=556 25=104
lengths any any 17: 26=153 27=1 28=70 29=1
lengths any any 18: 0=13 1=5 15=49 16=27 17=11 21=22 22=5 23=252 24=29 25=72 27=26 28=4 29=6
lengths any any 19: 0=1 16=7 24=1 26=1 28=3
lengths any any 20: 0=15 16=9 24=6 25=1 26=2 28=2
lengths any any 21: 0=76 1=85 15=18 16=73 17=158 22=1 23=6 24=46 25=240 26=28 27=24 28=9 29=12
lengths any any 22: 0=172 1=228 2=3 14=8 15=96 16=352 17=334 18=12 21=1 22=6 23=200 24=619 25=526 26=129
lengths any any 22: 27=117 28=51 29=86 32=1
lengths any any 23: 0=519 1=259 2=3 14=28 15=157 16=716 17=320 18=59 20=1 21=1 22=188 23=494 24=1310
lengths any any 23: 25=827 26=447 27=153 28=192 29=58 31=2 32=77
lengths any any 24: 0=480 1=170 2=7 14=13 15=376 16=601 17=161 18=5 21=60 22=184 23=865 24=1466 25=798
lengths any any 24: 26=369 27=131 28=149 29=43 30=3 31=43 32=45
lengths any any 25: 0=329 1=64 2=10 15=278 16=130 17=100 21=42 22=136 23=759 24=780 25=400 26=100 27=116
lengths any any 25: 28=95 29=29 31=17 32=20
lengths any any 26: 0=118 1=40 14=7 15=37 16=160 17=2 20=1 21=11 22=64 23=258 24=335 25=155 26=50 27=41
lengths any any 26: 28=74 29=1 31=13 32=27
lengths any any 27: 0=25 1=1 15=86 16=2 17=87 21=13 22=45 23=154 24=177 25=62 26=51 27=47 31=11 32=19
lengths any any 28: 1=22 15=2 16=162 17=2 18=4 22=4 23=67 24=67 25=99 26=64 32=6
lengths any any 29: 0=43 1=5 2=6 15=94 16=2 17=4 23=34 24=42 25=39 26=1
lengths any any 30: 0=15 1=12 16=1 24=1 26=1 32=2
lengths any any 31: 0=42 1=38 31=6 32=27
lengths any any 32: 0=71 2=14 30=5 31=19 32=88
lengths any high 0: 30=27 31=124 32=87
lengths any high 1: 31=34 32=75
lengths any high 2: 32=17
lengths any high 14: 32=2
lengths any high 15: 31=8 32=30
lengths any high 16: 30=5 31=36 32=59
lengths any high 17: 31=43 32=61
lengths any high 18: 32=11
lengths any high 21: 32=3
lengths any high 22: 31=6 32=27
lengths any high 23: 30=6 31=36 32=168
lengths any high 24: 30=14 31=90 32=148
lengths any high 25: 31=82 32=131
lengths any high 26: 32=30
lengths any high 28: 32=2
lengths any high 29: 31=4 32=13
lengths any high 30: 24=1 30=2 31=21 32=165
lengths any high 31: 23=6 25=18 30=6 31=159 32=720
lengths any high 32: 22=1 24=26 25=16 26=5 30=57 31=513 32=1386
lengths any range 0: 30=24 31=76 32=66
lengths any range 1: 31=30 32=59
lengths any range 2: 32=17
lengths any range 14: 32=1
lengths any range 15: 31=13 32=34
lengths any range 16: 30=6 31=25 32=80
lengths any range 17: 31=18 32=68
lengths any range 18: 32=13
lengths any range 20: 32=1
lengths any range 21: 31=3 32=13
lengths any range 22: 30=1 31=13 32=83
lengths any range 23: 30=9 31=68 32=151
lengths any range 24: 30=19 31=127 32=243
lengths any range 25: 30=4 31=119 32=164
lengths any range 26: 30=11 31=60 32=57
lengths any range 27: 31=22 32=28
lengths any range 28: 32=7
lengths any range 30: 0=7
lengths any range 31: 0=24 1=9 31=1 32=4
lengths any range 32: 0=19 1=13 2=7 30=1 31=3 32=4
lengths any exact 0: 0=46 1=28 2=5 14=7 15=39 16=39 17=13 18=2 22=105 23=13 24=403 25=634 26=250 27=51
lengths any exact 0: 28=1 30=197 31=853 32=898
lengths any exact 1: 0=34 1=12 15=11 16=14 17=5 23=152 24=262 25=102 26=42 31=336 32=641
lengths any exact 2: 0=6 25=6 32=173
lengths any exact 13: 29=3
lengths any exact 14: 0=9 16=10 28=6 29=29 30=25 32=29
lengths any exact 15: 0=34 1=17 15=22 16=41 17=22 27=3 28=47 29=54 30=43 31=43 32=6
lengths any exact 16: 0=36 1=22 2=1 14=8 15=49 16=44 17=50 18=16 27=2 28=21 29=67 30=37 31=10 32=212
lengths any exact 17: 0=11 1=3 15=27 16=49 17=13 28=40 29=16 30=1 31=115 32=6
lengths any exact 18: 16=7
lengths any exact 21: 0=17 16=1 25=1 32=2
lengths any exact 22: 0=235 1=303 16=6 17=8 23=1 24=63 25=194 26=11 27=121 31=7 32=51
lengths any exact 23: 0=755 1=326 14=1 15=10 16=20 17=12 18=3 22=2 23=82 24=408 25=144 26=259 27=47 28=16
lengths any exact 23: 30=3 31=90 32=1256
lengths any exact 24: 0=628 1=29 2=1 14=3 15=8 16=25 17=6 18=1 22=18 23=212 24=230 25=224 26=113 27=31
lengths any exact 24: 28=20 29=61 30=29 31=755 32=1475
lengths any exact 25: 0=20 1=4 15=11 16=8 17=1 23=113 24=42 25=52 26=31 27=32 28=92 29=172 30=10 31=705
lengths any exact 25: 32=990
lengths any exact 26: 0=3 25=1 26=10 27=63 28=384 29=13 30=18 31=423 32=331
lengths any exact 27: 0=7 1=22 27=187 28=16 29=16 31=143 32=123
lengths any exact 28: 0=35 1=8 2=6 28=12 32=20
lengths any exact 29: 0=13 1=12 31=11 32=30
lengths any exact 30: 0=37 16=17 24=1 26=2 30=12 31=22 32=419
lengths any exact 31: 0=127 1=59 15=25 16=5 17=58 23=3 24=11 25=60 26=2 27=15 30=6 31=350 32=1655
lengths any exact 32: 0=100 1=115 2=21 14=14 15=3 16=146 17=2 18=3 22=1 23=19 24=100 25=12 26=23 27=6 28=1
lengths any exact 32: 30=77 31=1147 32=3823
lengths high any 30: 0=11 16=2 24=3
lengths high any 31: 0=28 1=11 15=2 16=28 17=13 23=2 24=8 25=11
lengths high any 32: 0=11 1=18 14=5 15=14 16=29 17=28 18=6 23=11 24=21 25=18 26=4
lengths range any 0: 30=8 31=35 32=25
lengths range any 1: 31=9 32=16
lengths range any 2: 32=5
lengths range any 21: 32=1
lengths range any 22: 31=1 32=2
lengths range any 23: 30=1 32=28
lengths range any 24: 31=26 32=13
lengths range any 25: 31=9 32=5
lengths range any 26: 32=1
lengths range any 30: 0=15 16=1 23=2 24=6 25=2 26=11
lengths range any 31: 0=51 1=20 15=7 16=37 17=29 21=3 22=5 23=34 24=89 25=98 26=59 27=30 31=1 32=5
lengths range any 32: 0=41 1=52 2=13 15=28 16=61 17=53 18=11 21=3 22=57 23=120 24=151 25=130 26=62 27=33
lengths range any 32: 28=4 31=3 32=11
lengths exact any 0: 22=32 23=112 24=94 25=45 26=4 28=4 29=23 30=210 31=636 32=491
lengths exact any 1: 23=41 24=29 25=15 29=84 30=229 31=191 32=348
lengths exact any 2: 30=1 31=17 32=83
lengths exact any 14: 32=13
lengths exact any 15: 31=13 32=6
lengths exact any 16: 30=9 31=5 32=96
lengths exact any 17: 31=44 32=44
lengths exact any 18: 32=13
lengths exact any 21: 24=3 31=3 32=2
lengths exact any 22: 23=16 24=16 25=74 29=3 30=6 31=20 32=34
lengths exact any 23: 22=10 23=27 24=120 25=21 26=14 29=8 30=35 31=66 32=488
lengths exact any 24: 22=10 23=73 24=68 25=57 26=7 28=1 29=21 30=72 31=275 32=239
lengths exact any 25: 23=37 24=53 25=21 29=10 30=23 31=120 32=76
lengths exact any 26: 16=4 24=8 25=1 26=16 30=3 31=2 32=28
lengths exact any 27: 15=19 16=55 17=41 24=3 25=36 26=37 27=95 31=3 32=8
lengths exact any 28: 14=8 15=45 16=71 17=44 18=9 23=1 24=22 25=74 26=208 27=14 28=9 32=4
lengths exact any 29: 15=36 16=34 17=12 24=38 25=108 26=17 27=30
lengths exact any 30: 0=2 16=11 24=36 25=19 26=66 32=20
lengths exact any 31: 0=23 1=126 15=9 16=1 17=23 22=4 23=72 24=297 25=478 26=380 27=223 31=35 32=114
lengths exact any 32: 0=327 1=230 2=54 14=5 15=6 16=49 17=46 18=7 21=1 22=37 23=343 24=763 25=921 26=537
lengths exact any 32: 27=341 28=81 30=29 31=125 32=364
lengths exact range 30: 32=1
lengths exact range 31: 31=7 32=9
lengths exact range 32: 31=16 32=12
lengths exact exact 30: 32=9
lengths exact exact 31: 31=18 32=59
lengths exact exact 32: 30=8 31=66 32=94
# protocol, classes of source and destination ports
service any any any 26491
service 17 any exact 17304
service 6 any exact 10395
service 17 exact any 6279
service 6 exact any 6130
service 17 any high 4481
service 6 any any 1613
service 6 range any 1321
service 6 any range 1305
service 1 any any 857
service 17 any range 520
service 17 high any 284
service 17 exact exact 254
service 47 any any 240
service 17 any any 219
service 17 range any 202
service 51 any any 103
service 50 any any 103
service 6 exact range 45
source_ports 161=3164 53=1696 80=1099 25=1068 1433=932 22=548 143=519 5540=505 5550=399 5500=330 5632=305
source_ports 5510=300 5530=295 5520=285 500=203 5631=195 123=165 69=159 1098=106 138=89 20=59 23=59 137=56
source_ports 6789=48 443=47 135=39 1723=38
source_ranges 109-110=440 20-23=434 20-21=377 1645-1646=226 5000-5001=46
destination_ports 69=5125 514=5114 80=3042 9003=2382 53=2122 25=1332 1433=866 137=730 143=549 162=536 22=511
destination_ports 113=440 139=407 161=362 119=350 1645=303 5540=266 1646=254 7000=211 500=197 5631=184 1723=175
destination_ports 135=154 524=153 6970=146 32774=143 5520=143 7777=140 5550=139 5510=135 8875=135 1214=133
destination_ports 2549=132 6699=129 6346=127 5530=121 5500=110 21=103 23=89 3389=52 123=48 5000=46 110=44 445=37
destination_ports 4899=36
destination_ranges 20-23=496 109-110=481 1645-1646=358 20-21=315 1812-1813=136 20-2511=43 5000-5001=41
tcp_flags 0x0000/0x0000 12184
tcp_flags 0x0000/0x0200 8582
tcp_flags 0x0200/0x0200 43
