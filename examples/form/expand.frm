#-
#: SmallSize 100000
#: SmallExtension 150000
#: LargeSize 400000
#: TermsInSmall 2000
#: LargePatches 8
#: FilePatches 8
#: ScratchSize 50000
#: SortIOSize 20000
#: MaxTermSize 1000
#: WorkSpace 200000
#: TempDir .
Off Statistics;
Symbols a,b,c,d,e,f,x;
Local F = (a+b+c+d+e)^8;
.sort
#do i = 1,12
Multiply (1+`i'*x*a);
id x^3 = a-b;
id a^9 = c*d^8 + e^9;
.sort
#write <steps> "step `i'"
#enddo
id a = b + 1;
id b^2 = c - 3;
.sort
Bracket x;
Print +s;
.end
