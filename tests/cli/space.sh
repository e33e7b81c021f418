# what the search over a transformer's configurations chooses from
set +e
m=gpt:layers=4,hidden=256,heads=4,vocab=1000,seq=512
$paradl plan $m --system dgx-a100 --pes 8 --batch 16 --strategies data,tensor --top 2 --space |
    sed -E '/^\*/,/points/s/  +[0-9].*//; /points/,/axes/s/[0-9]+/N/g; s/between.*/between .../'
echo "rc ${PIPESTATUS[0]}"
$paradl plan $m --system dgx-a100 --pes 8 --batch 16 --strategies data,tensor --top 1 --space --json |
    grep -o '"axis": "[a-z -]*"' | sort | uniq -c
